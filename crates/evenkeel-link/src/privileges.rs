//! Giving up root: another user for the whole process, and only the capabilities that are needed later.
//!
//! Identities and capabilities belong to threads. libc's calls change the identity of all threads of a
//! process, and the kernel takes all capabilities from a thread that was root's and is no more. The thread
//! that makes the calls keeps some, which only threads that it starts later inherit.

use std::io;

pub use rustix::thread::CapabilitySet;
use rustix::thread::{
    CapabilitySets, capabilities, set_capabilities, set_keep_capabilities, set_no_new_privs,
};

use crate::sys;

/// The numbers of a user, and of its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The number of the user.
    pub user: u32,
    /// The number of its first group, which new files get.
    pub group: u32,
    /// The numbers of all other groups.
    pub others: Vec<u32>,
}

/// Returns whether this process acts as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes the calling thread, and those that it starts from now on, unable to gain privileges by executing
/// programs.
///
/// # Errors
/// None on a kernel that evenkeel runs on.
pub fn gain_no_privileges() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

/// Makes all threads of the process run as `identity`, for good. The calling thread keeps the capabilities
/// `kept`, which threads that it starts later inherit. All other threads lose all.
///
/// # Errors
/// The process is not root's, or lacks one of the capabilities.
pub fn become_user(identity: &Identity, kept: CapabilitySet) -> io::Result<()> {
    let Identity { user, group, others } = identity;
    set_keep_capabilities(!kept.is_empty())?;
    sys::set_identity(*user, *group, others)?;
    set_keep_capabilities(false)?;
    keep_only(kept)
}

/// Gives up all capabilities of the calling thread but those in `kept`.
fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    let left = capabilities(None)?;
    if left == sets { Ok(()) } else { Err(io::Error::other(format!("capabilities are left: {left:?}"))) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::fs;
    use std::sync::mpsc::channel;

    use super::*;

    /// Returns a field of the status of a thread of this process.
    fn field(thread: &str, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
        let line = status.lines().find(|line| line.split(':').next() == Some(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    }

    fn this_thread() -> String {
        rustix::thread::gettid().as_raw_nonzero().to_string()
    }

    /// Runs as a process of its own, which becomes another user.
    #[test]
    fn in_child_every_thread_becomes_the_user() {
        if std::env::var_os("EVENKEEL_BECOME").is_none() {
            return;
        }
        gain_no_privileges().unwrap();
        let (tell, told) = channel::<()>();
        let (say, said) = channel();
        let earlier = std::thread::spawn(move || {
            say.send(this_thread()).unwrap();
            told.recv().unwrap();
        });
        let earlier_name = said.recv().unwrap();
        let identity = Identity { user: 65_534, group: 65_533, others: vec![65_532] };
        become_user(&identity, CapabilitySet::NET_RAW).unwrap();
        let later = std::thread::spawn(|| field(&this_thread(), "CapEff")).join().unwrap();
        assert_eq!(later, "0000000000002000", "CAP_NET_RAW is inherited");
        assert_eq!(field(&this_thread(), "CapPrm"), "0000000000002000");
        assert_eq!(field(&earlier_name, "CapPrm"), "0000000000000000");
        for thread in [&earlier_name, &this_thread()] {
            assert_eq!(field(thread, "Uid"), "65534 65534 65534 65534");
            assert_eq!(field(thread, "Gid"), "65533 65533 65533 65533");
            assert_eq!(field(thread, "Groups"), "65532");
            assert_eq!(field(thread, "NoNewPrivs"), "1");
        }
        assert!(
            become_user(&Identity { user: 0, group: 0, others: vec![] }, CapabilitySet::empty()).is_err()
        );
        tell.send(()).unwrap();
        earlier.join().unwrap();
    }

    #[test]
    fn every_thread_becomes_the_user() {
        if !rustix::process::geteuid().is_root() {
            return evenkeel_skip::skip(
                "every_thread_becomes_the_user",
                &evenkeel_skip::Lack::Root("another user needs CAP_SETUID"),
            );
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "privileges::tests::in_child_every_thread_becomes_the_user"]);
        let output = child.env("EVENKEEL_BECOME", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let ran = String::from_utf8_lossy(&output.stdout);
        assert!(ran.contains("1 passed"), "{ran}");
    }
}
