//! Machine models: the cost of each kind of work on a machine. They are data files, in which every number has
//! its source.
//!
//! A model gives nanoseconds per piece of work ([`Work`]). If the code of one receive architecture differs
//! from the others', it has a cost for that architecture alone. It also has the differences of *variants* of
//! the system, and the times of the programs that the paper ran. A kind without a cost is free. See
//! `docs/evidence/machine-models.md`.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::receive::Architecture;
use evenkeel_core::time::Duration;
use evenkeel_core::work::{Work, WorkLog};
use serde::Deserialize;

/// A machine model: the costs of work under each architecture and in each variant, and the times of
/// programs.
#[derive(Debug, Clone)]
pub struct Machine {
    name: String,
    about: String,
    base: Costs,
    architectures: Vec<(Architecture, Costs)>,
    variants: BTreeMap<String, BTreeMap<String, Entry>>,
    programs: BTreeMap<String, Duration>,
    prices: Vec<Price>,
}

/// A price of a model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// The key of the price in the file: `cost.receive`, `architecture.eager.deliver`, `program.screend`.
    pub path: String,
    /// The time that one piece of the work takes.
    pub time: Duration,
    /// The source of the number: a key of a paper's figure, a derivation or a fit.
    pub source: String,
    /// The reason why the price differs under this architecture or in this variant, according to the paper;
    /// `None` for a price that does not differ. The reason begins with `none: ` if the paper gives none.
    pub reason: Option<String>,
}

/// Nanoseconds per piece of work, for one machine under one architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    nanos: [u64; Work::ALL.len()],
}

impl Costs {
    /// A machine on which everything is free, except for one nanosecond for every work item.
    pub const FREE: Self = Self { nanos: [0; Work::ALL.len()] };

    /// Returns the time that one piece of `work` takes.
    #[must_use]
    pub fn of(&self, work: Work) -> Duration {
        Duration::from_nanos(self.nanos[work as usize])
    }

    /// Returns these costs for a clock of `to` Hz in place of `from`: the prices in cycles stay equal.
    #[must_use]
    pub fn scaled(&self, from: u64, to: u64) -> Self {
        Self { nanos: self.nanos.map(|nanos| nanos * from / to.max(1)) }
    }

    /// Returns the time of a work item with this work log: at least a nanosecond, so that time always passes.
    #[must_use]
    pub fn total(&self, log: &WorkLog) -> Duration {
        let work: u64 = log.iter().map(|(work, count)| self.nanos[work as usize] * u64::from(count)).sum();
        (Duration::from_nanos(work) + log.compute).max(Duration::from_nanos(1))
    }
}

/// A machine model is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineError {
    file: String,
    field: String,
    problem: String,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine model {}: {}: {}", self.file, self.field, self.problem)
    }
}

impl std::error::Error for MachineError {}

/// The models that come with evenkeel: file name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("sparcstation-20.toml", include_str!("../machines/sparcstation-20.toml")),
    ("decstation-3100.toml", include_str!("../machines/decstation-3100.toml")),
    ("decstation-3000-300.toml", include_str!("../machines/decstation-3000-300.toml")),
    ("alphastation-500.toml", include_str!("../machines/alphastation-500.toml")),
    ("pentium-ii-300.toml", include_str!("../machines/pentium-ii-300.toml")),
];

impl Machine {
    /// Returns the built-in model with this name.
    ///
    /// # Errors
    /// [`MachineError`] naming those there are, or what is wrong with the file.
    pub fn built_in(name: &str) -> Result<Self, MachineError> {
        let wanted = format!("{name}.toml");
        let Some((file, text)) = BUILT_IN.iter().find(|(file, _)| *file == wanted) else {
            let names: Vec<_> = Self::names().collect();
            let problem = format!("no such model; there are {}", names.join(", "));
            return Err(MachineError { file: wanted, field: "name".into(), problem });
        };
        Self::parse(file, text)
    }

    /// Returns the names of the built-in models.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(file, _)| file.trim_end_matches(".toml"))
    }

    /// Reads a model from the text of a file; `file` is for messages.
    ///
    /// # Errors
    /// [`MachineError`] with the field that is wrong and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Self, MachineError> {
        let fail =
            |field: &str, problem: String| MachineError { file: file.into(), field: field.into(), problem };
        let model: Model =
            toml::from_str(text).map_err(|e| fail("syntax", e.to_string().trim().replace('\n', "; ")))?;
        if model.about.trim().is_empty() {
            return Err(fail("about", "must say which machine this is".into()));
        }
        let base = Costs::FREE.with("cost", &model.cost).map_err(|(field, problem)| fail(&field, problem))?;
        let mut architectures = Vec::new();
        for (name, costs) in &model.architecture {
            let architecture: Architecture =
                name.parse().map_err(|e: evenkeel_core::receive::UnknownArchitecture| {
                    fail(&format!("architecture.{name}"), e.to_string())
                })?;
            let table = format!("architecture.{name}");
            let costs = base.with(&table, costs).map_err(|(field, problem)| fail(&field, problem))?;
            architectures.push((architecture, costs));
        }
        for (name, costs) in &model.variant {
            base.with(&format!("variant.{name}"), costs).map_err(|(field, problem)| fail(&field, problem))?;
        }
        let mut programs = BTreeMap::new();
        for (name, entry) in &model.program {
            entry.check().map_err(|problem| fail(&format!("program.{name}"), problem))?;
            programs.insert(name.clone(), Duration::from_nanos(entry.ns));
        }
        let prices = model.prices();
        for Price { path, reason, .. } in &prices {
            let differs = path.starts_with("architecture.") || path.starts_with("variant.");
            if differs && reason.is_none() {
                let problem =
                    "differs, and must say why: reason = \"...\" as the paper tells, or \"none: ...\"";
                return Err(fail(path, problem.into()));
            }
            if !differs && reason.is_some() {
                return Err(fail(path, "is the same for all, and needs no reason".into()));
            }
        }
        Ok(Self {
            name: model.name,
            about: model.about,
            base,
            architectures,
            variants: model.variant,
            programs,
            prices,
        })
    }

    /// Returns every price in the file.
    #[must_use]
    pub fn prices(&self) -> &[Price] {
        &self.prices
    }

    /// Returns the name of the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a description of the machine.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the machine's costs under `architecture`.
    #[must_use]
    pub fn costs(&self, architecture: Architecture) -> Costs {
        self.architectures.iter().find(|(a, _)| *a == architecture).map_or(self.base, |(_, costs)| *costs)
    }

    /// Returns the machine's costs under `architecture` in a variant of the system.
    ///
    /// # Errors
    /// [`MachineError`] if it has no such variant.
    pub fn variant(&self, name: &str, architecture: Architecture) -> Result<Costs, MachineError> {
        let missing = || MachineError {
            file: self.name.clone(),
            field: format!("variant.{name}"),
            problem: format!("no such variant; there are {:?}", self.variants.keys()),
        };
        let costs = self.variants.get(name).ok_or_else(missing)?;
        let with = self.costs(architecture).with(name, costs);
        with.map_err(|(field, problem)| MachineError { file: self.name.clone(), field, problem })
    }

    /// Returns the time that one action of a program takes, for a program that the paper ran on this
    /// machine.
    ///
    /// # Errors
    /// [`MachineError`] if the model does not know the program.
    pub fn program(&self, name: &str) -> Result<Duration, MachineError> {
        self.programs.get(name).copied().ok_or_else(|| MachineError {
            file: self.name.clone(),
            field: format!("program.{name}"),
            problem: format!("no such program; there are {:?}", self.programs.keys()),
        })
    }
}

impl Costs {
    /// Returns these costs with the entries of a table of the file in their place.
    fn with(mut self, table: &str, entries: &BTreeMap<String, Entry>) -> Result<Self, (String, String)> {
        for (kind, entry) in entries {
            let field = format!("{table}.{kind}");
            let Some(work) = Work::ALL.iter().find(|w| w.name() == kind) else {
                let kinds: Vec<_> = Work::ALL.iter().map(|w| w.name()).collect();
                return Err((field, format!("no such kind of work; there are {}", kinds.join(", "))));
            };
            entry.check().map_err(|problem| (field, problem))?;
            self.nanos[*work as usize] = entry.ns;
        }
        Ok(self)
    }
}

/// The contents of a model file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    name: String,
    about: String,
    #[serde(default)]
    cost: BTreeMap<String, Entry>,
    #[serde(default)]
    architecture: BTreeMap<String, BTreeMap<String, Entry>>,
    #[serde(default)]
    variant: BTreeMap<String, BTreeMap<String, Entry>>,
    #[serde(default)]
    program: BTreeMap<String, Entry>,
}

impl Model {
    fn prices(&self) -> Vec<Price> {
        let under = |table: &str, entries: &BTreeMap<String, Entry>| {
            let table = table.to_owned();
            entries
                .iter()
                .map(move |(kind, entry)| entry.price(format!("{table}.{kind}")))
                .collect::<Vec<_>>()
        };
        let mut prices = under("cost", &self.cost);
        for (kind, of) in [("architecture", &self.architecture), ("variant", &self.variant)] {
            prices.extend(of.iter().flat_map(|(name, entries)| under(&format!("{kind}.{name}"), entries)));
        }
        prices.extend(under("program", &self.program));
        prices
    }
}

/// A cost with its source, and the reason why it differs if it does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    ns: u64,
    source: String,
    reason: Option<String>,
}

/// The longest time of a piece of work; a longer one is a mistake in the file.
const NS_MAX: u64 = 1_000_000_000;

/// The allowed beginnings of a source: a paper's key, arithmetic on such figures (`D.`), or a fit to them.
const SOURCES: &[&str] = &["L96.", "L97.", "O96.", "S98.", "T00.", "D.", "fit: "];

impl Entry {
    fn price(&self, path: String) -> Price {
        let Self { ns, source, reason } = self.clone();
        Price { path, time: Duration::from_nanos(ns), source, reason }
    }

    fn check(&self) -> Result<(), String> {
        if self.ns > NS_MAX {
            return Err(format!("ns = {} is more than a second (0 to {NS_MAX})", self.ns));
        }
        if !SOURCES.iter().any(|s| self.source.starts_with(s) && self.source.len() > s.len()) {
            return Err(format!("source = {:?} must begin with one of {}", self.source, SOURCES.join(" ")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_model_is_sound_and_named_after_its_file() {
        for name in Machine::names() {
            let machine = Machine::built_in(name).unwrap();
            assert_eq!(machine.name(), name);
            assert!(machine.costs(Architecture::Eager).of(Work::Receive) > Duration::ZERO, "{name}");
        }
    }

    #[test]
    fn an_architecture_overrides_the_base_and_only_there() {
        let text = r#"
            name = "m"
            about = "a machine"
            [cost]
            receive = { ns = 10, source = "fit: 10" }
            transmit = { ns = 20, source = "fit: 20" }
            [architecture.ni-lrp]
            receive = { ns = 3, source = "fit: 3", reason = "section 1" }
        "#;
        let machine = Machine::parse("m.toml", text).unwrap();
        let of = |a, w| machine.costs(a).of(w).as_nanos();
        assert_eq!((of(Architecture::Eager, Work::Receive), of(Architecture::NiLrp, Work::Receive)), (10, 3));
        assert_eq!(
            (of(Architecture::Eager, Work::Transmit), of(Architecture::NiLrp, Work::Transmit)),
            (20, 20)
        );
        let mut log = WorkLog::default();
        log.add(Work::Receive);
        log.add(Work::Receive);
        log.compute = Duration::from_nanos(5);
        assert_eq!(machine.costs(Architecture::Eager).total(&log), Duration::from_nanos(25));
        assert_eq!(Costs::FREE.total(&WorkLog::default()), Duration::from_nanos(1));
    }

    #[test]
    fn a_variant_comes_on_top_of_its_architecture_and_programs_have_their_time() {
        let text = r#"
            name = "m"
            about = "a machine"
            [cost]
            receive = { ns = 10, source = "fit: 10" }
            transmit = { ns = 20, source = "fit: 20" }
            [architecture.eager]
            transmit = { ns = 30, source = "fit: 30", reason = "section 1" }
            [variant.slow]
            receive = { ns = 11, source = "fit: 11", reason = "none: nobody knows" }
            [program.tool]
            ns = 7
            source = "fit: 7"
        "#;
        let machine = Machine::parse("m.toml", text).unwrap();
        let slow = machine.variant("slow", Architecture::Eager).unwrap();
        assert_eq!((slow.of(Work::Receive).as_nanos(), slow.of(Work::Transmit).as_nanos()), (11, 30));
        assert_eq!(machine.costs(Architecture::Eager).of(Work::Receive).as_nanos(), 10);
        assert_eq!(machine.program("tool").unwrap(), Duration::from_nanos(7));
        let missing = machine.program("saw").unwrap_err().to_string();
        assert!(missing.contains("program.saw") && missing.contains("tool"), "{missing}");
        assert!(machine.variant("fast", Architecture::Eager).unwrap_err().to_string().contains("slow"));
    }

    #[test]
    fn errors_name_file_field_and_remedy() {
        let error = |cost: &str| {
            let text = format!("name = \"m\"\nabout = \"a machine\"\n{cost}");
            Machine::parse("m.toml", &text).unwrap_err().to_string()
        };
        let unknown = error("[cost]\nrecieve = { ns = 1, source = \"fit: 1\" }");
        assert!(unknown.starts_with("machine model m.toml: cost.recieve: no such kind of work"), "{unknown}");
        assert!(unknown.contains("soft-interrupt"), "{unknown}");
        let source = error("[architecture.eager]\nreceive = { ns = 1, source = \"a guess\" }");
        assert!(
            source.contains("architecture.eager.receive: source = \"a guess\" must begin with"),
            "{source}"
        );
        let big = error("[cost]\nreceive = { ns = 2000000000, source = \"fit: 1\" }");
        assert!(big.contains("more than a second"), "{big}");
        assert!(error("[architecture.bsd]").contains("expected one of"), "{}", error("[architecture.bsd]"));
        assert!(error("[cost]\nreceive = { ns = 1 }").contains("missing field `source`"));
        let same = "receive = { ns = 1, source = \"fit: 1\"";
        let unexplained = error(&format!("[architecture.eager]\n{same} }}"));
        assert!(
            unexplained.contains("architecture.eager.receive: differs, and must say why"),
            "{unexplained}"
        );
        assert!(error(&format!("[variant.slow]\n{same} }}")).contains("variant.slow.receive: differs"));
        let needless = error(&format!("[cost]\n{same}, reason = \"section 1\" }}"));
        assert!(needless.contains("cost.receive: is the same for all"), "{needless}");
        assert!(Machine::built_in("vax").unwrap_err().to_string().contains("sparcstation-20"));
    }
}
