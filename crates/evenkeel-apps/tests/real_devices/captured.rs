//! Captures by `tcpdump` on the kernel's side, judged by `tshark`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ChildStderr;

use crate::support::{Running, run, start_until};

/// A `tcpdump` at work.
pub(crate) struct Capture {
    tcpdump: Running,
    stderr: std::io::BufReader<ChildStderr>,
    path: PathBuf,
}

impl Capture {
    pub(crate) fn start(device: &str, path: PathBuf) -> Self {
        // By default tcpdump gives up root, and then may not write into this directory. Its buffer has room
        // for 32 768 frames of the given length, on a machine too busy to let it run.
        let command = format!(
            "tcpdump -Z root -U -n -s 2000 -B 65536 --immediate-mode -i {device} -w {}",
            path.display()
        );
        let (tcpdump, stderr) = start_until(&command, "listening on");
        Self { tcpdump, stderr, path }
    }

    /// Ends the capture, which must not have missed a frame.
    pub(crate) fn stop(mut self) -> PathBuf {
        run(&format!("kill -INT {}", self.tcpdump.0.id()));
        assert!(self.tcpdump.0.wait().unwrap().success());
        let mut summary = String::new();
        self.stderr.read_to_string(&mut summary).unwrap();
        assert!(summary.contains("\n0 packets dropped by kernel"), "{summary}");
        self.path.clone()
    }
}

/// The checksums that tshark verifies, and the place of each in [`Verdict::verified`].
pub(crate) const CHECKSUMS: [&str; 5] = [
    "ip.checksum.status",
    "udp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
    "igmp.checksum.status",
];

/// The verdict of tshark on the frames of one sender.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) frames: usize,
    /// Right checksums, by [`CHECKSUMS`].
    pub(crate) verified: [usize; CHECKSUMS.len()],
    /// Frames that are malformed, have a wrong checksum, or cause a warning of tshark; each with its defect.
    pub(crate) faults: Vec<String>,
}

/// Makes tshark dissect the frames from `mac`, and verify every checksum.
pub(crate) fn judge(file: &Path, mac: &str) -> Verdict {
    let columns = CHECKSUMS.map(|field| format!("-e {field}")).join(" ");
    let command = format!(
        "tshark -n -r {} -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -Y eth.src=={mac} -T fields \
         -e frame.number -e _ws.malformed -e _ws.expert.severity -e _ws.expert.message {columns}",
        file.display()
    );
    let mut verdict = Verdict::default();
    for line in run(&command).lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
        verdict.add(line);
    }
    verdict
}

/// The severity from which on tshark warns (`PI_WARN`); errors are above it.
const WARNING: u32 = 0x0060_0000;

impl Verdict {
    fn add(&mut self, line: &str) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[_, malformed, severities, _, ref checksums @ ..] = &columns[..] else {
            panic!("not what was asked for: {line}")
        };
        let mut wrong = !malformed.is_empty();
        wrong |= severities.split(',').any(|s| s.parse::<u32>().is_ok_and(|severity| severity >= WARNING));
        for (status, verified) in checksums.iter().zip(&mut self.verified) {
            // The values are 0 bad, 1 good and 2 unverified; there are several if a message quotes a packet.
            wrong |= status.split(',').any(|status| status == "0" || status == "Bad");
            *verified += usize::from(status.split(',').any(|status| status == "1" || status == "Good"));
        }
        self.frames += 1;
        if wrong {
            self.faults.push(line.to_owned());
        }
    }
}
