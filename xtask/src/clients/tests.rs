use super::*;

#[test]
fn perftest_has_129_commands() {
    assert_eq!(perftest::client().cases.len(), 129);
}

#[test]
fn ucx_perftest_has_196_commands() {
    let cases = ucx::client().cases;
    let own = cases.iter().filter(|case| case.name.starts_with("-t "));
    assert_eq!(own.count(), 196);
}

#[test]
fn no_two_cases_have_one_name() -> io::Result<()> {
    let scratch = Scratch::new("clients-names")?;
    for client in all(&options::Paths::default(), &scratch)? {
        let mut names: Vec<&str> = client.cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{}", client.name);
        assert!(client.cases.iter().all(|case| case.client == client.name));
    }
    Ok(())
}

fn parsed(line: &str) -> io::Result<Options> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    options::parse(&words)
}

#[test]
fn options_are_read() -> io::Result<()> {
    let options =
        parsed("--provider fairway --client ucx --client fio --only -S --timeout 9 --json")?;
    assert_eq!(options.providers, ["fairway"]);
    assert_eq!(options.clients, ["ucx", "fio"]);
    assert_eq!((options.only.as_deref(), options.timeout_seconds), (Some("-S"), 9));
    assert!(options.json && !options.list);
    assert_eq!(parsed("")?, Options::default());
    assert_eq!(parsed("--provider both")?.providers, ["roce", "fairway"]);
    Ok(())
}

#[test]
fn wrong_options_are_named() {
    for (line, part) in [
        ("--provider tcp", "--provider tcp: choose roce, fairway or both"),
        ("--timeout 0", "--timeout 0: choose 1 to 86400 seconds"),
        ("--osu /nowhere", "--osu /nowhere: there is no such path"),
        ("--only", "--only needs a value"),
        ("--speed", "there is no option --speed"),
    ] {
        let error = parsed(line).expect_err(line).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_client_that_is_not_known_is_named() -> io::Result<()> {
    let options = Options { clients: vec!["iperf".to_owned()], ..Options::default() };
    let Err(error) = selected(&options, vec![perftest::client()]) else {
        panic!("there is no client iperf");
    };
    assert!(error.to_string().contains("--client iperf: choose one of perftest"), "{error}");
    Ok(())
}

/// Path of the tool, built with the same profile as this test.
fn tool() -> io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let profile = this.ancestors().nth(2).unwrap_or(&this);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "fairway-cli"]);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    assert!(status.success(), "the fairway tool does not build");
    Ok(profile.join("fairway"))
}

/// A few programs over both providers. `xtask clients` runs all of them.
#[test]
fn a_few_programs_run_over_both_providers() -> io::Result<()> {
    crate::verbs::run_quietly()?;
    let tool = tool()?;
    let scratch = Scratch::new("clients-test")?;
    let options = Options { short: true, ..Options::default() };
    let clients = selected(&options, all(&options.paths, &scratch)?)?;
    let (clients, absent) = divide(clients);
    for gone in &absent {
        // Printed even if the output of successful tests is hidden.
        writeln!(io::stderr(), "SKIPPED: {}: {}; {}", gone.client, gone.reason, gone.install)?;
    }
    let options = Options { logs: Some(scratch.0.join("logs")), ..options };
    let place = place(&options, tool, &scratch)?;
    let rows = board(&options.providers, &clients, &place)?;
    for row in &rows {
        let expected = if row.name.contains("XRC") { "refused" } else { "pass" };
        let Row { client, provider, name, verdict, .. } = row;
        assert_eq!(
            verdict.word(),
            expected,
            "{client} over {provider}: {name}: {}",
            verdict.reason
        );
    }
    Ok(())
}
