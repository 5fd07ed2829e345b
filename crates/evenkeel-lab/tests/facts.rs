//! The figures of the papers (`facts/papers.toml`), compared with what cites them: comments, constants,
//! machine models and pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Figures that no paper states, in constants that have cited ones as well: the file, the constant, and the
/// figures.
const OWN_FIGURES: [(&str, &str, &[f64]); 7] = [
    // The paper states the ends; these lie between them.
    ("s98_fig1.rs", "COLD", &[250.0, 500.0, 750.0, 1_000.0, 1_250.0, 1_500.0, 1_750.0]),
    ("t00_tab12.rs", "QUOTAS", &[2.0, 5.0, 10.0]),
    // What the other rows leave of 100 %.
    ("s98_tab1.rs", "PAPER", &[54.75]),
    ("s98_tab2.rs", "PAPER", &[50.18]),
    // A tolerance of 5 %.
    ("s98_fig7.rs", "PRINTED", &[1.05]),
    // The seconds in which so many packets are sent.
    ("router_testbed.rs", "TIME", &[2.0]),
    // The bytes of a KB, and of the headers.
    ("t00_testbed.rs", "ANSWER", &[1_024.0, 250.0]),
];

/// The constants and prices that are compared, at least.
const COMPARED_MIN: usize = 150;

/// The facts by their keys.
struct Facts(BTreeMap<String, Fact>);

/// The figures of a key.
struct Fact {
    /// Whether the fact has a value. Without one it is a statement.
    has_value: bool,
    /// The figures of the value and of the sentence.
    figures: Vec<f64>,
    /// The keys that a derived figure follows from.
    from: Vec<String>,
}

impl Facts {
    fn read() -> Self {
        let text = include_str!("../facts/papers.toml");
        let file: Table = text.parse().expect("a table");
        let facts = file["fact"].as_table().expect("facts").iter();
        Self(facts.map(|(key, fact)| (key.clone(), Fact::new(fact))).collect())
    }

    /// Returns the figures of the keys in a text, of those that have any.
    fn figures(&self, text: &str) -> Vec<f64> {
        let keys = keys(text);
        let facts = keys.iter().filter_map(|key| self.0.get(key)).filter(|fact| fact.has_value);
        facts.flat_map(|fact| fact.figures.clone()).collect()
    }
}

impl Fact {
    fn new(fact: &Value) -> Self {
        let mut figures = numbers(fact["about"].as_str().expect("a sentence"));
        let value = fact.get("value");
        value.into_iter().for_each(|value| collect(value, &mut figures));
        let from = fact.get("from").and_then(Value::as_array).into_iter().flatten();
        let from = from.filter_map(Value::as_str).map(str::to_owned).collect();
        Self { has_value: value.is_some(), figures, from }
    }
}

/// Collects the numbers in a value.
fn collect(value: &Value, numbers: &mut Vec<f64>) {
    match value {
        Value::Integer(number) => numbers.push(*number as f64),
        Value::Float(number) => numbers.push(*number),
        Value::Array(values) => values.iter().for_each(|value| collect(value, numbers)),
        Value::Table(values) => values.values().for_each(|value| collect(value, numbers)),
        _ => {}
    }
}

/// Returns the keys that a text cites.
fn keys(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
    words.map(|word| word.trim_end_matches('.')).filter(|word| is_key(word)).map(str::to_owned).collect()
}

fn is_key(word: &str) -> bool {
    let figure = word.strip_prefix("D.").unwrap_or(word);
    let papers = ["L96.", "L97.", "O96.", "S98.", "T00."];
    papers.iter().any(|paper| figure.strip_prefix(paper).is_some_and(|rest| !rest.is_empty()))
}

/// Returns the numbers in a text of code or prose. A number within a name is none, nor is the distance of a
/// shift.
fn numbers(text: &str) -> Vec<f64> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut numbers = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_word(c)).unwrap_or(from.len()));
        rest = after;
        let digits = word.replace('_', "").trim_end_matches('.').to_owned();
        let number = ["", "u32", "u64", "usize", "f64"].iter().find_map(|suffix| {
            digits
                .strip_suffix(suffix)
                .filter(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))?
                .parse::<f64>()
                .ok()
        });
        if !before.trim_end().ends_with("<<") {
            numbers.extend(number);
        }
    }
    numbers
}

/// Returns whether code has a figure: as the paper states it, in another unit, as a share of one, as a factor
/// (158 % of something is a gain of 58 %), or as a period instead of a rate.
fn is_stated(number: f64, figures: &[f64]) -> bool {
    const UNITS: [f64; 7] = [1.0, 1e2, 1e3, 1e6, 1e-2, 1e-3, 1e-6];
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * a.abs().max(b.abs());
    figures.iter().map(|figure| figure.abs()).any(|figure| {
        UNITS.iter().any(|unit| near(number, figure * unit))
            || near(number, 1.0 + figure / 100.0)
            || (figure > 0.0 && near(number, 1e9 / figure))
    })
}

/// A constant or a price whose comment or source cites keys.
struct Cited {
    place: String,
    name: String,
    numbers: Vec<f64>,
    /// The figures of the keys.
    stated: Vec<f64>,
}

/// Returns the constants of a file that follow comments with keys.
fn constants(path: &str, text: &str, facts: &Facts) -> Vec<Cited> {
    let mut cited = Vec::new();
    let mut comment = String::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("///") {
            comment.push_str(words);
            continue;
        }
        let comment = std::mem::take(&mut comment);
        let Some((_, declaration)) = line.split_once("const ").filter(|_| !line.contains(" fn ")) else {
            continue;
        };
        let mut declaration = declaration.to_owned();
        while !declaration.ends_with(';')
            && let Some(line) = lines.next()
        {
            declaration.push_str(line.split("//").next().unwrap_or_default().trim_end());
        }
        let (Some((name, _)), Some((_, value))) = (declaration.split_once(':'), declaration.split_once(" ="))
        else {
            continue;
        };
        let stated = facts.figures(&comment);
        cited.push(Cited { place: path.to_owned(), name: name.to_owned(), numbers: numbers(value), stated });
    }
    cited
}

/// Returns the prices of a machine model whose source is a key and nothing else.
fn prices(path: &str, text: &str, facts: &Facts) -> Vec<Cited> {
    let price = |line: &str| {
        let (name, price) = line.split_once('=')?;
        let (_, source) = price.split_once("source = \"")?;
        let key = source.split('"').next().filter(|key| is_key(key) && !key.contains(' '))?;
        let nanos = price.split_once("ns = ")?.1.split(',').next()?;
        let numbers = numbers(nanos);
        Some(Cited {
            place: path.to_owned(),
            name: name.trim().to_owned(),
            numbers,
            stated: facts.figures(key),
        })
    };
    text.lines().filter_map(price).collect()
}

/// Returns the files of the tree that may cite keys, with their texts.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for part in ["crates", "docs", "README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        find(&root.join(part), &mut files);
    }
    let here = ["facts/papers.toml", "tests/facts.rs"];
    files.retain(|file| !here.iter().any(|own| file.ends_with(own)));
    let text = |file: PathBuf| (file.display().to_string(), fs::read_to_string(&file).expect("a text"));
    files.into_iter().map(text).collect()
}

/// Finds the texts below a folder, or the file itself.
fn find(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            find(&entry.expect("an entry").path(), files);
        }
    } else if ["rs", "toml", "md"].iter().any(|kind| path.extension().is_some_and(|own| own == *kind)) {
        files.push(path.to_owned());
    }
}

#[test]
fn every_key_that_is_cited_is_a_fact_and_every_fact_is_needed() {
    let facts = Facts::read();
    let mut needed = BTreeSet::new();
    for (file, text) in sources() {
        for key in keys(&text) {
            assert!(facts.0.contains_key(&key), "{file} cites {key}");
            needed.insert(key);
        }
    }
    assert!(needed.len() > 100, "{} keys: those are not all", needed.len());
    let mut derived: Vec<String> = needed.iter().cloned().collect();
    while let Some(key) = derived.pop() {
        for from in &facts.0[&key].from {
            assert!(facts.0.contains_key(from), "{key} follows from {from}");
            if needed.insert(from.clone()) {
                derived.push(from.clone());
            }
        }
    }
    let unneeded: Vec<_> = facts.0.keys().filter(|key| !needed.contains(*key)).collect();
    assert!(unneeded.is_empty(), "nothing cites {unneeded:?}");
}

#[test]
fn figures_beside_a_key_are_the_figures_of_that_key() {
    let facts = Facts::read();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (file, text) in sources() {
        let prices = file.ends_with(".toml").then(|| prices(&file, &text, &facts));
        let cited = prices.unwrap_or_else(|| constants(&file, &text, &facts));
        for Cited { place, name, numbers, stated } in cited.into_iter().filter(|one| !one.stated.is_empty()) {
            let own = OWN_FIGURES.iter().find(|own| place.ends_with(own.0) && own.1 == name);
            let own = own.map_or(&[][..], |own| own.2);
            let numbers = numbers.into_iter().filter(|number| *number != 0.0 && !own.contains(number));
            for number in numbers {
                compared += 1;
                if !is_stated(number, &stated) {
                    wrong.push(format!("{place}: {name} has {number}, of {stated:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared >= COMPARED_MIN, "{compared} figures: those are not all");
}

#[test]
fn a_figure_that_is_off_is_noticed() {
    let mut fact = Table::new();
    fact.insert("about".to_owned(), "Output is (1 - 72e-6 r) / 140.8e-6, with 2000 cold ones.".into());
    fact.insert("value".to_owned(), vec![1.23, 58.0].into());
    let facts = Facts(BTreeMap::from([("L97.F1.x".to_owned(), Fact::new(&fact.into()))]));
    let wrong = |value: &str| {
        let text = format!("/// A time (L97.F1.x).\nconst TIME: [f64; 2] =\n    {value};\n");
        let cited = constants("a.rs", &text, &facts);
        assert_eq!((cited.len(), cited[0].name.as_str()), (1, "TIME"));
        let [Cited { numbers, stated, .. }] = &cited[..] else { panic!() };
        numbers.iter().copied().filter(|number| !is_stated(*number, stated)).collect::<Vec<_>>()
    };
    assert_eq!(wrong("[1.23, 58.0]"), []);
    assert_eq!(wrong("Duration::from_micros(1_230).mul(2_000 << 10)"), []);
    assert_eq!(wrong("[1.24, 1.58, 0.58, 5.8]"), [1.24, 5.8]);
    let model = "idle-loop = { ns = 1_230_000, source = \"L97.F1.x\" }\n\
                 other = { ns = 7, source = \"fit: L97.F1.x\" }";
    let found = prices("m.toml", model, &facts);
    assert_eq!(
        (found.len(), found[0].name.as_str(), is_stated(found[0].numbers[0], &found[0].stated)),
        (1, "idle-loop", true)
    );
}
