//! Completion scripts, in the shells that they are for.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::process::Command;

use common::json;
use evenkeel_skip::Lack;

/// Completions include the values of options.
#[test]
fn completions_know_values() {
    for shell in ["bash", "zsh", "fish"] {
        let script = json(&["completions", shell, "--json"])["script"].as_str().unwrap().replace('\\', "");
        let options = ["early-demux", "ni-lrp", "newreno", "packet:", "remembered", "dynamic"];
        for value in options.iter().chain(&["l97-fig15", "t00"]) {
            assert!(script.contains(value), "{shell} does not know {value}");
        }
    }
}

/// Runs a script of a shell with the path of the program and a line, and returns what it prints. Returns
/// `None` if the shell is missing.
fn run(shell: &[&str], script: &str, line: &str) -> Option<Vec<String>> {
    Command::new(shell[0]).arg("--version").output().ok()?;
    let arguments = [&shell[1..], &["-c", script]].concat();
    let output = Command::new(shell[0])
        .args(arguments)
        .args([env!("CARGO_BIN_EXE_evenkeel"), line])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    Some(printed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Returns the completions that bash offers for the last word of a line.
fn offered_in_bash(line: &str) -> Vec<String> {
    // The function for completions is called as bash calls it. Bash's builtin compopt works only within its
    // own call.
    let script = r#"
        compopt() { :; }
        source <("$0" completions bash)
        COMP_LINE="$1" COMP_POINT=${#1}
        _evenkeel_whole evenkeel "" ""
        printf '%s\n' "${COMPREPLY[@]}""#;
    run(&["bash"], script, line).unwrap()
}

/// Returns the completions that fish offers, without their descriptions.
fn offered_in_fish(line: &str) -> Option<Vec<String>> {
    let script = "source ($argv[1] completions fish | psub); complete -C $argv[2]";
    let offered = run(&["fish", "--no-config"], script, line)?;
    Some(offered.iter().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect())
}

/// Returns the completions that zsh offers. An interactive zsh runs in a terminal of its own, and the key Tab
/// is sent to it. Its builtin compadd is replaced with one that also records the words.
fn offered_in_zsh(line: &str) -> Option<Vec<String>> {
    let script = r#"
        zmodload zsh/zpty
        words="$(mktemp)"
        zpty shell zsh -f -i
        zpty -w shell "PROMPT=; autoload -Uz compinit; compinit -u -D
            eval \"\$($0 completions zsh)\"; compdef _evenkeel evenkeel
            compadd() {
                local -a hits
                if [[ \${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
                    builtin compadd -O hits \"\$@\"; print -rl -- \$hits >> $words
                fi
                builtin compadd \"\$@\"
            }
            finish() { print \$((6 * 7000)); exit }
            comppostfuncs=(finish); bindkey '^I' complete-word; print \$((6 * 6000))"
        zpty -r shell said '*36000*'
        zpty -w -n shell "$1"$'\t'
        zpty -r shell said '*42000*'
        cat "$words"
        rm "$words""#;
    run(&["zsh", "-f"], script, line)
}

/// Lines, each with words that a shell offers for it, and words that it does not offer.
const LINES: [(&str, &[&str], &[&str]); 15] = [
    ("evenkeel bla", &["blast"], &["demo"]),
    ("evenkeel lab run l97-fig1", &["l97-fig1", "l97-fig15"], &["o96-fig3"]),
    ("evenkeel lab run t0", &["t00", "t00-tab1"], &["all"]),
    ("evenkeel completions ", &["bash", "fish", "zsh"], &["cable"]),
    ("evenkeel help rece", &["receiving"], &["blast"]),
    ("evenkeel man ro", &["route"], &["blast"]),
    ("evenkeel echo cable --architecture ", &["eager", "ni-lrp", "soft-lrp"], &["Cargo.toml"]),
    ("evenkeel echo cable --tcp --congestion ", &["bbr", "cubic", "newreno"], &["Cargo.toml"]),
    ("evenkeel blast pack", &["packet:", "packet:lo"], &["cable"]),
    // Interfaces that the machine has, as links and without.
    ("evenkeel monitor l", &["lo"], &["any"]),
    ("evenkeel guard l", &["lo"], &["any"]),
    ("evenkeel guard lo --dry-run l", &["lo"], &["any"]),
    ("evenkeel doctor l", &["lo"], &["interfaces"]),
    // Files where a file is meant, and nowhere else.
    ("evenkeel route --rules Car", &["Cargo.toml"], &[]),
    ("evenkeel blast cable --rate Car", &[], &["Cargo.toml"]),
];

/// Checks what a shell offers for each line. Reports if the shell is missing.
fn check(test: &str, shell: &'static str, offered: impl Fn(&str) -> Option<Vec<String>>) {
    for (line, wanted, unwanted) in LINES {
        let Some(offered) = offered(line) else {
            return evenkeel_skip::skip(test, &Lack::Program { program: shell, package: shell });
        };
        let has = |word: &&str| offered.iter().any(|offered| offered == *word);
        assert!(wanted.iter().all(&has), "{shell}: {line}: not all of {wanted:?}: {offered:?}");
        assert!(!unwanted.iter().any(has), "{shell}: {line}: some of {unwanted:?}: {offered:?}");
    }
}

#[test]
fn bash_completes_values() {
    check("bash_completes_values", "bash", |line| Some(offered_in_bash(line)));
}

#[test]
fn zsh_completes_values() {
    check("zsh_completes_values", "zsh", offered_in_zsh);
}

#[test]
fn fish_completes_values() {
    check("fish_completes_values", "fish", offered_in_fish);
}

/// The completions include the loopback device, which every machine has.
#[test]
fn bash_completes_links_with_the_interfaces_there_are() {
    let offered = |line: &str| offered_in_bash(line);
    // The completion continues after the colon, where bash starts a new word.
    for line in ["echo packet:", "wan --link packet:l", "route --link xdp:", "load --on xdp:"] {
        let offered = offered(&format!("evenkeel {line}"));
        assert!(offered.contains(&"lo".to_owned()), "{line}: {offered:?}");
        assert!(offered.iter().all(|word| !word.contains(':')), "{line}: {offered:?}");
    }
    let prefixed = offered("evenkeel echo pack");
    assert!(
        ["packet:", "packet:lo"].iter().all(|word| prefixed.contains(&(*word).to_owned())),
        "{prefixed:?}"
    );
    assert!(!offered("evenkeel echo tap:").contains(&"lo".to_owned()), "it is no TAP");
    assert!(offered("evenkeel monitor l").contains(&"lo".to_owned()));
    assert!(offered("evenkeel monitor an").contains(&"any".to_owned()));
    // Other words are still completed.
    assert_eq!(offered("evenkeel echo cable --architecture soft"), ["soft-lrp"]);
    assert_eq!(offered("evenkeel bla"), ["blast"]);
    assert!(offered("evenkeel echo cable --kernel-").contains(&"--kernel-address".to_owned()));
}

#[test]
fn fish_completes_links_with_the_interfaces_there_are() {
    if Command::new("fish").arg("-v").output().is_err() {
        let lack = Lack::Program { program: "fish", package: "fish" };
        return evenkeel_skip::skip("fish_completes_links_with_the_interfaces_there_are", &lack);
    }
    let offered = |line: &str| offered_in_fish(line).unwrap().join("\n");
    for line in ["echo packet:", "monitor packet:", "wan --link packet:", "load --on xdp:"] {
        let offered = offered(&format!("evenkeel {line}"));
        let name = if line.ends_with("xdp:") { "xdp:lo" } else { "packet:lo" };
        assert!(offered.lines().any(|line| line.starts_with(name)), "{line}: {offered}");
    }
    assert!(offered("evenkeel monitor l").lines().any(|line| line.starts_with("lo")));
    assert!(offered("evenkeel echo ca").lines().any(|line| line.starts_with("cable")));
}

#[test]
fn zsh_understands_its_script() {
    if Command::new("zsh").arg("--version").output().is_err() {
        let lack = Lack::Program { program: "zsh", package: "zsh" };
        return evenkeel_skip::skip("zsh_understands_its_script", &lack);
    }
    // The script calls the function as zsh would for a link, and prints its suggestions.
    let script = r#"
        script="$($0 completions zsh)"
        [[ $script == *'{_evenkeel_links cable tap\: packet\: xdp\: pcap\:}'* ]] || print missing
        compdef() { }
        eval "$script"
        compadd() { print -l $links }
        _evenkeel_links any packet: xdp:"#;
    let output = Command::new("zsh").args(["-fc", script, env!("CARGO_BIN_EXE_evenkeel")]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let offered: Vec<&str> = said.lines().collect();
    assert!(errors.is_empty(), "{errors}");
    assert!(
        ["any", "lo", "packet:", "packet:lo", "xdp:lo"].iter().all(|word| offered.contains(word)),
        "{said}"
    );
    assert!(!offered.contains(&"missing"), "{said}");
}
