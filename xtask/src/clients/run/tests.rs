use super::*;

/// A separate folder for a test.
fn scratch(name: &str) -> io::Result<crate::programs::Scratch> {
    crate::programs::Scratch::new(&format!("run-{name}"))
}

#[test]
fn placeholders_are_filled() -> io::Result<()> {
    let folder = scratch("filled")?;
    let place = Place {
        tool: PathBuf::from("fairway"),
        host: "192.0.2.9".to_owned(),
        device: "fairway3".to_owned(),
        timeout: Duration::from_secs(1),
        scratch: folder.0.clone(),
        logs: folder.0.clone(),
    };
    let (scratch, said) = (PathBuf::from("/s"), "7".to_owned());
    let values = Values { place: &place, provider: "roce", port: 81, scratch, said };
    let filled = values.fill("{host}:{port} {device} {provider} {scratch} {said} {other}");
    assert_eq!(filled, "192.0.2.9:81 fairway3 roce /s 7 {other}");
    let half = Half::new("rping -a {host}").variable("UCX_NET_DEVICES", "{device}:1");
    let shown = format!("{:?}", values.command(&half));
    assert!(
        shown.contains(r#""run" "--provider" "roce" "--" "rping" "-a" "192.0.2.9""#),
        "{shown}"
    );
    assert!(shown.contains("fairway3:1"), "{shown}");
    Ok(())
}
