//! The processors that hosts are bound to, one each.

use crate::text::alternatives;

/// Checks that this process may run on all of `cores`, and that none is given twice.
///
/// # Errors
/// The message names the core and the problem.
pub(crate) fn check(cores: &[usize]) -> Result<(), String> {
    let usable = evenkeel::raw::cpu::cpus();
    for (index, core) in cores.iter().enumerate() {
        let problem = if !usable.contains(core) {
            let usable: Vec<_> = usable.iter().map(ToString::to_string).collect();
            format!("this process may run on {}", alternatives(usable.iter().map(String::as_str)))
        } else if cores.iter().take(index).any(|other| other == core) {
            "is given twice".to_owned()
        } else {
            continue;
        };
        return Err(format!("core {core}: {problem}"));
    }
    Ok(())
}
