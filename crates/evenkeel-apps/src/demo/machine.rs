//! The description of the machine that the demonstration runs on.

/// Returns the processor's name, if Linux gives one.
#[must_use]
pub fn processor() -> Option<String> {
    model_name(&std::fs::read_to_string("/proc/cpuinfo").ok()?).map(str::to_owned)
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_gives_the_name() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\nmodel name\t: another\n";
        assert_eq!(model_name(cpuinfo), Some("Some CPU @ 2.0 GHz"));
        assert_eq!(model_name("processor\t: 0\nmodel name\t: \n"), None);
        assert_eq!(model_name("CPU implementer : 0x41\n"), None);
    }
}
