//! The results as JSON: the contract of `evenkeel demo --json`.

use super::results::Demonstration;

/// Returns the results as one JSON object, indented, without a newline at its end.
///
/// # Errors
/// Plain numbers and strings cause no error, but `serde_json` has one in its type.
pub fn render(results: &Demonstration) -> serde_json::Result<String> {
    serde_json::to_string_pretty(results)
}

/// Returns the results that [`render`] wrote, or an older version of it.
///
/// # Errors
/// If `text` is no such object, or has no measurement in it.
pub fn parse(text: &str) -> serde_json::Result<Demonstration> {
    use serde::de::Error as _;

    let results: Demonstration = serde_json::from_str(text)?;
    let is_empty = results.architectures.iter().any(|a| a.points.is_empty());
    if is_empty { Err(serde_json::Error::custom("an architecture without points")) } else { Ok(results) }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::demo::{fixture, report};

    /// The JSON has the fields that outside scripts rely on.
    #[test]
    fn the_contract_is_kept() {
        let value: Value = serde_json::from_str(&render(&fixture::demonstration()).unwrap()).unwrap();
        let architectures = value["architectures"].as_array().unwrap();
        assert_eq!(architectures.len(), 5);
        for architecture in architectures {
            assert!(architecture["name"].is_string());
            for field in ["mlfrr_pps", "peak_pps", "offered_max_pps", "delivered_max_pps", "retention"] {
                assert!(architecture[field].is_f64(), "{field}");
            }
            for field in ["neighbour_cpu", "victim_loss"] {
                assert!(architecture[field].is_f64(), "{field}");
            }
            assert!(architecture["victim_p99_us"].is_f64() || architecture["victim_p99_us"].is_null());
            assert!(architecture["conserved"].is_boolean());
            let cpu = architecture["cpu"].as_object().unwrap();
            let levels = ["idle", "interrupt", "polling_thread", "process", "soft_interrupt"];
            assert!(levels.iter().all(|level| cpu[*level].is_f64()));
            for drop in architecture["drops"].as_array().unwrap() {
                assert!(drop["reason"].is_string() && drop["place"].is_string() && drop["frames"].is_u64());
            }
            assert!(architecture["points"].as_array().unwrap().iter().all(|p| p["offered_pps"].is_f64()));
        }
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        let results = fixture::demonstration();
        let back: Demonstration = serde_json::from_value(serde_json::to_value(&results).unwrap()).unwrap();
        assert!(back == results);
        // A number may lose its last bit in the text, which no page shows.
        let back = parse(&render(&results).unwrap()).unwrap();
        assert_eq!(report::render(&back), report::render(&results));
    }

    /// Results of a version that recorded less can be shown.
    #[test]
    fn what_an_older_version_wrote_can_be_read() {
        let mut value = serde_json::to_value(fixture::demonstration()).unwrap();
        for newer in ["on", "no_xdp", "system", "started", "took_s", "command"] {
            value["setup"].as_object_mut().unwrap().remove(newer).unwrap();
        }
        let results = parse(&value.to_string()).unwrap();
        assert_eq!((&results.setup.command, results.setup.took_s), (&None, None));
        value["architectures"][0]["points"] = Value::Array(Vec::new());
        assert!(parse(&value.to_string()).is_err() && parse("{}").is_err());
    }
}
