//! Commands that run as a service: their service manager, and the user that they become.

use std::sync::OnceLock;

use clap::Args;
use evenkeel::metrics;
use evenkeel::raw::device::DeviceSpec;
use evenkeel::raw::privilege::{CapabilitySet, gain_no_privileges, is_root};
use evenkeel_apps::supervised::{self, Manager, Supervised};

use crate::failure::Failure;
use crate::message;
use crate::user::{User, user};

/// The duties of this process, once they are known.
static SUPERVISED: OnceLock<Supervised> = OnceLock::new();

/// The arguments of a command that may run as a service.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArguments {
    /// As root: become the user NAME as soon as all links and files are open.
    #[arg(long, value_name = "NAME[:GROUP]", value_parser = user, value_hint = clap::ValueHint::Username)]
    user: Option<User>,
}

impl ServiceArguments {
    /// Finds the duties of this process. Its user keeps only the capabilities `kept`. This comes before all
    /// threads, because each inherits that it gains no privileges.
    pub(crate) fn begin(&self, kept: CapabilitySet) -> Result<(), Failure> {
        let user = self.user.clone().map(|user| leaving_root(user, kept)).transpose()?;
        let _ = SUPERVISED.set(Supervised { manager: manager()?, user });
        Ok(())
    }

    /// Refuses a user for a demonstration in memory, which needs no privileges that it could leave.
    pub(crate) fn refuse_user(&self) -> Result<(), Failure> {
        match self.user {
            Some(_) => Err(Failure::Usage("cable needs no root that --user could leave".to_owned())),
            None => Ok(()),
        }
    }
}

/// Prepares this process for becoming `user`.
fn leaving_root(user: User, kept: CapabilitySet) -> Result<supervised::User, Failure> {
    let User { name, identity } = user;
    if !is_root() {
        let line = "--user needs root: only root may become another user";
        return Err(Failure::Machine(line.to_owned()));
    }
    gain_no_privileges().map_err(|error| Failure::machine("cannot give up gaining privileges", error))?;
    // Where there is no place for the socket of its figures, the command runs without.
    let _ = metrics::prepare_for_user(identity.user);
    Ok(supervised::User { name, identity, kept })
}

fn manager() -> Result<Option<Manager>, Failure> {
    Manager::from_environment().map_err(|error| Failure::machine("cannot use NOTIFY_SOCKET", error))
}

/// Returns the duties of this process.
pub(crate) fn supervised() -> Result<&'static Supervised, Failure> {
    if SUPERVISED.get().is_none() {
        let _ = SUPERVISED.set(Supervised { manager: manager()?, user: None });
    }
    SUPERVISED.get().ok_or_else(|| Failure::Machine("no service".to_owned()))
}

fn with_manager(act: impl FnOnce(&Manager)) {
    if let Some(manager) = SUPERVISED.get().and_then(|supervised| supervised.manager.as_ref()) {
        act(manager);
    }
}

/// Prints one line about an event to standard error, and shows it as the state of the service.
pub(crate) fn say(line: &str) {
    message::say(line);
    with_manager(|manager| manager.status(line));
}

/// Reports that the command is ending.
pub(crate) fn stopping() {
    with_manager(Manager::stopping);
}

/// Returns the capabilities with which a command opens a removed device again when it returns.
pub(crate) fn to_reopen(device: &DeviceSpec) -> CapabilitySet {
    match device {
        DeviceSpec::Packet(_) => CapabilitySet::NET_RAW,
        DeviceSpec::Tap(_) => CapabilitySet::NET_ADMIN,
        DeviceSpec::Xdp(_) => {
            CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::BPF | CapabilitySet::PERFMON
        }
        DeviceSpec::Pcap(_) => CapabilitySet::empty(),
    }
}
