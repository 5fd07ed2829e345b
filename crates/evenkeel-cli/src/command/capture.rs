//! `--capture`: the capture of a host that also does other work.

use evenkeel::raw::capture::{Expression, Frames};
use evenkeel_apps::captures::{Embedded, EmbeddedCaptured, Writable};
use evenkeel_apps::quantity::count;

use crate::failure::Failure;
use crate::message::{self, Level};

/// Reads `FILE[,snaplen=N][,filter=EXPRESSION]`. The expression comes last and may contain commas.
pub(crate) fn inside(text: &str) -> Result<Embedded, String> {
    let (text, filter) = match text.split_once(",filter=") {
        Some((before, filter)) => {
            let filter = Expression::new(filter);
            // This reports an invalid filter at once; the result is not used.
            filter.compile(&Frames::ETHERNET).map_err(|error| error.to_string())?;
            (before, Some(filter))
        }
        None => (text, None),
    };
    let (file, snaplen) = match text.split_once(",snaplen=") {
        Some((file, snaplen)) => {
            let snaplen = snaplen.parse().ok().filter(|snaplen| *snaplen > 0);
            (file, snaplen.ok_or("expected a number of bytes above 0 behind snaplen=")?)
        }
        None => (text, usize::MAX),
    };
    if file.is_empty() || file == "-" {
        return Err(
            "expected a file, such as capture.pcapng or capture.pcapng,snaplen=96,filter=udp".to_owned()
        );
    }
    Ok(Embedded { file: file.into(), snaplen, filter, notify: show })
}

/// Prints that a capture cannot be written, or that it can again.
pub(super) fn show(change: Writable) {
    match change {
        Writable::Failing(what) => {
            message::put(Level::Warning, &format!("{what}; packets that cannot be written are counted"));
        }
        Writable::Recovered(frames) => {
            message::say(&format!("writing again; {} packets were not written", count(frames)));
        }
    }
}

/// Returns the line about a capture: the packets captured, dropped by its queue, and not written.
pub(super) fn line(captured: &EmbeddedCaptured) -> String {
    let EmbeddedCaptured { file, captured, dropped, discarded, .. } = captured;
    let mut line = format!("  captured {} in {file}", count(*captured));
    for (frames, what) in [(*dropped, "dropped by the capture queue"), (*discarded, "not written")] {
        if frames > 0 {
            line.push_str(&format!(", {} {what}", count(frames)));
        }
    }
    line + "\n"
}

/// Fails if a capture is incomplete, as `evenkeel monitor` does.
pub(super) fn judge(captured: Option<&EmbeddedCaptured>) -> Result<(), Failure> {
    match captured.and_then(|captured| captured.incomplete.as_ref()) {
        Some(why) => Err(Failure::Machine(why.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_length_and_filter() {
        let plain = inside("a,b.pcapng").unwrap();
        assert_eq!((plain.file.to_str(), plain.snaplen), (Some("a,b.pcapng"), usize::MAX));
        assert_eq!(inside("a,snaplen=96").unwrap().snaplen, 96);
        for wrong in ["", "-", "a,snaplen=0", "a,snaplen=x", ",snaplen=9"] {
            assert!(inside(wrong).is_err_and(|e| e.starts_with("expected")), "{wrong}");
        }
        // Without libpcap the filter is an error, too, with another message.
        if let Ok(all) = inside("a,snaplen=96,filter=udp portrange 1-9") {
            assert_eq!((all.snaplen, all.filter.unwrap().text()), (96, "udp portrange 1-9"));
        }
    }
}
