use super::*;

/// A limit of two methods, one file, and half of the methods away.
const STRICT: Rules<'static> = Rules {
    methods: 2,
    coordinator_methods: 1,
    coordinators: &[],
    files: 1,
    away_percent: 50,
    exceptions: &[],
};

type Files<'a> = [(&'a str, &'a str)];

/// Returns the census of a crate `a` of these files, of which `lib.rs` is the root.
fn census(files: &Files<'_>) -> Census {
    let read = |file: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == file);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    };
    let mut census = Census::default();
    census.add("a", &Sources::read(Path::new("lib.rs"), &read).unwrap());
    census
}

/// Returns the path, methods, public methods, fields, files and methods away of each type.
fn figures(files: &Files<'_>) -> Vec<(String, [usize; 5])> {
    let mut census = census(files);
    census.sort();
    assert_eq!(census.unresolved, []);
    let figures = |of: &Figures| [of.methods, of.public, of.fields, of.files.len(), of.away];
    census.types.iter().map(|of| (of.path.clone(), figures(of))).collect()
}

fn findings(files: &Files<'_>, rules: &Rules<'_>) -> Vec<String> {
    Report::new(census(files), rules).findings
}

/// Checks that the only finding has all of these words.
#[track_caller]
fn assert_finding(findings: &[String], words: &[&str]) {
    let [finding] = findings else { panic!("not one finding: {findings:?}") };
    assert!(words.iter().all(|word| finding.contains(word)), "{words:?} in: {finding}");
}

#[test]
fn methods_fields_and_files_are_counted() {
    let files = [
        (
            "lib.rs",
            "mod more; pub struct Net<T> { a: T, b: u8 }
             impl<T> Net<T> { pub fn a(&self) {} pub(crate) fn b(&self) {} const C: u8 = 1; }
             impl<T> Drop for Net<T> { fn drop(&mut self) {} }
             pub trait See { fn see(&self); fn look(&self) {} }
             impl dyn See + '_ { fn stare(&self) {} }
             enum Kind { A, B(u8), C } impl Kind { const fn is_a(&self) {} }
             struct Plain(u8);",
        ),
        ("more.rs", "impl<T> crate::Net<T> { fn c() {} } impl crate::Net<u8> { pub fn d() {} }"),
    ];
    let expected = [("a::Net", [4, 2, 2, 2, 2]), ("a::See", [3, 2, 0, 1, 0]), ("a::Kind", [1, 0, 3, 1, 0])];
    assert_eq!(figures(&files), expected.map(|(path, figures)| (path.to_owned(), figures)));
}

#[test]
fn tests_do_not_count() {
    let text = "struct Net;
        impl Net { fn a() {} #[cfg(test)] fn b() {} #[cfg(not(test))] fn c() {} }
        #[cfg(test)] impl Net { fn d() {} }
        #[cfg(all(test, unix))] mod tests;
        #[cfg(test)] mod inner { struct Net; impl Net { fn e() {} } }
        #[cfg(test)] trait Try { fn try_it(); }";
    assert_eq!(figures(&[("lib.rs", text)]), [("a::Net".to_owned(), [2, 0, 0, 1, 0])]);
}

#[test]
fn modules_are_found_as_the_compiler_finds_them() {
    let files = [
        ("lib.rs", "mod a; mod b; #[path = \"else/where.rs\"] mod c; mod d { mod e; }"),
        ("a.rs", "mod x;"),
        ("a/x.rs", "struct X; impl X { fn f() {} }"),
        ("b/mod.rs", "mod x; #[path = \"z.rs\"] mod y;"),
        ("b/x.rs", "struct X; impl X { fn f() {} }"),
        ("b/z.rs", "struct X; impl X { fn f() {} }"),
        ("else/where.rs", "mod x;"),
        ("else/x.rs", "struct X; impl X { fn f() {} }"),
        ("d/e.rs", "struct X; impl X { fn f() {} }"),
    ];
    let paths: Vec<String> = figures(&files).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["a::a::x::X", "a::b::x::X", "a::b::y::X", "a::c::x::X", "a::d::e::X"]);
}

#[test]
fn types_of_one_name_are_told_apart() {
    let files = [
        ("lib.rs", "pub mod one; pub mod two; mod both; use one::Net; impl Net { fn imported() {} }"),
        ("one.rs", "pub struct Net; impl Net { fn own() {} } mod below { impl super::Net { fn up() {} } }"),
        (
            "two.rs",
            "pub use net::Net; impl Net { fn own() {} }
             mod net { pub struct Net; impl self::Net { fn own() {} } }
             mod glob { use super::*; impl Net { fn by_glob() {} } }
             mod alias { use crate::two::{Net as Two}; impl Two { fn by_alias() {} } }
             mod only { impl Unique { fn f() {} } } struct Unique;",
        ),
        (
            "both.rs",
            "struct Net; use super::two; impl Net { fn own() {} } impl crate::two::Net { fn f() {} }",
        ),
    ];
    let methods: Vec<(String, usize)> =
        figures(&files).into_iter().map(|(path, [methods, ..])| (path, methods)).collect();
    let expected = [("a::two::net::Net", 5), ("a::one::Net", 3), ("a::both::Net", 1), ("a::two::Unique", 1)];
    assert_eq!(methods, expected.map(|(path, methods)| (path.to_owned(), methods)));
}

#[test]
fn a_block_without_a_type_is_a_finding() {
    let text = "mod a { struct X; } mod b { struct X; } impl X { fn f() {} }";
    assert_finding(&findings(&[("lib.rs", text)], &STRICT), &["lib.rs", "`impl X`"]);
}

#[test]
fn a_file_that_is_missing_or_not_rust_is_named() {
    let error = |text: &'static str| {
        let read = |file: &Path| match file.to_str() {
            Some("lib.rs") => Ok(text.to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        Sources::read(Path::new("lib.rs"), &read).unwrap_err().to_string()
    };
    assert_eq!(error("mod gone;"), "lib.rs: no file of its module gone");
    assert!(error("struct {").starts_with("lib.rs: "), "{}", error("struct {"));
}

const WIDE: &str = "struct Net; impl Net { fn a() {} fn b() {} fn c() {} }";

#[test]
fn a_type_with_too_many_methods_fails() {
    assert_eq!(findings(&[("lib.rs", WIDE)], &Rules { methods: 3, ..STRICT }), [""; 0]);
    let words = ["a::Net", "3 methods", "limit is 2", "Give fields"];
    assert_finding(&findings(&[("lib.rs", WIDE)], &STRICT), &words);
}

#[test]
fn a_coordinator_has_a_limit_of_its_own() {
    let rules = Rules { methods: 9, coordinators: &["a::Net"], ..STRICT };
    assert_finding(&findings(&[("lib.rs", WIDE)], &rules), &["a::Net", "3 methods", "limit is 1"]);
}

#[test]
fn a_type_in_too_many_files_fails() {
    let files = [("lib.rs", "mod b; struct Net; impl Net { fn a() {} }"), ("b.rs", "impl Net { fn b() {} }")];
    assert_eq!(findings(&files, &Rules { files: 2, ..STRICT }), [""; 0]);
    assert_finding(&findings(&files, &STRICT), &["a::Net", "in 2 files", "limit is 1", "Move methods"]);
}

#[test]
fn too_many_methods_away_fail() {
    // All methods are in one file, which is not that of the type.
    let files = [("lib.rs", "mod b; struct Net;"), ("b.rs", "impl Net { fn a() {} fn b() {} }")];
    let words = ["all types", "2 methods", "limit is 1, 50 % of all", "Move methods"];
    assert_finding(&findings(&files, &STRICT), &words);
    // A trait's methods do not make the share smaller.
    let with_trait = [("lib.rs", "mod b; struct Net; trait See { fn a(); fn b(); }"), files[1]];
    assert_finding(&findings(&with_trait, &STRICT), &words);
    let half = [("lib.rs", "mod b; struct Net; struct X; impl X { fn a() {} fn b() {} }"), files[1]];
    assert_eq!(findings(&half, &STRICT), [""; 0]);
}

#[test]
fn an_exception_may_only_shrink() {
    let with = |recorded| {
        let exceptions = [("a::Net", Quantity::Methods, recorded)];
        findings(&[("lib.rs", WIDE)], &Rules { exceptions: &exceptions, ..STRICT })
    };
    assert_eq!(with(3), [""; 0]);
    assert_finding(&with(2), &["a::Net", "3 methods", "allows 2", "Give fields"]);
    assert_finding(&with(4), &["a::Net", "3 methods", "records 4", "Lower that to 3", "house.rs"]);
}

#[test]
fn an_exception_that_is_no_longer_needed_fails() {
    let exceptions = [("a::Net", Quantity::Methods, 3)];
    let rules = Rules { methods: 3, exceptions: &exceptions, ..STRICT };
    assert_finding(&findings(&[("lib.rs", WIDE)], &rules), &["a::Net", "limit is 3", "Remove its exception"]);
}

#[test]
fn a_rule_about_a_type_that_is_not_there_fails() {
    let exceptions = [("a::Gone", Quantity::Files, 3)];
    let rules = Rules { methods: 3, exceptions: &exceptions, ..STRICT };
    assert_finding(&findings(&[("lib.rs", WIDE)], &rules), &["a::Gone", "no type"]);
    let rules = Rules { methods: 3, coordinators: &["a::Gone"], ..STRICT };
    assert_finding(&findings(&[("lib.rs", WIDE)], &rules), &["a::Gone", "no type"]);
}

#[test]
fn the_exception_of_all_types_may_only_shrink() {
    let files = [("lib.rs", "mod b; struct Net;"), ("b.rs", "impl Net { fn a() {} fn b() {} }")];
    let with = |recorded| {
        let exceptions = [(ALL, Quantity::Away, recorded)];
        findings(&files, &Rules { exceptions: &exceptions, ..STRICT })
    };
    assert_eq!(with(2), [""; 0]);
    assert_finding(&with(1), &["all types", "allows 1"]);
    assert_finding(&with(3), &["all types", "Lower that to 2"]);
}

#[test]
fn the_table_and_the_json_have_every_figure() {
    let report = Report::new(census(&[("lib.rs", WIDE)]), &STRICT);
    let table = report.table(1);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["methods", "public", "fields", "files", "away", "type"]);
    assert_eq!(lines[1], ["3", "0", "0", "1", "0", "a::Net"]);
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    let expected = serde_json::json!([{
        "type": "a::Net", "kind": "struct", "file": "lib.rs", "fields": 0, "methods": 3, "public": 0,
        "files": ["lib.rs"], "away": 0,
    }]);
    assert_eq!(json["types"], expected);
    assert_eq!((&json["methods"], &json["away"]), (&3.into(), &0.into()));
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(1));
}
