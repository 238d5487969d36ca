use super::*;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A separate folder for a test.
fn scratch(name: &str) -> io::Result<crate::programs::Scratch> {
    crate::programs::Scratch::new(&format!("run-{name}"))
}

#[test]
fn every_process_that_came_from_one_is_ended_with_it() -> io::Result<()> {
    let folder = scratch("ended")?;
    let mut command = Command::new("sh");
    // The processes are in two sessions, like a job's ranks in separate groups; both ignore
    // SIGTERM.
    command.args(["-c", "trap '' TERM; setsid sleep 600 & echo $!; wait; wait"]);
    let mut process = Process::start(command, folder.0.join("log"))?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while process.text().is_empty() && Instant::now() < deadline {
        process.wait_until(Instant::now() + LOOK)?;
    }
    let sleeper: i32 = process.text().trim().parse().map_err(io::Error::other)?;
    let number = Pid::from_raw(sleeper).ok_or_else(|| io::Error::other("it printed no number"))?;
    let sleeper = pidfd_open(number, PidfdFlags::empty())?;
    process.end()?;
    assert_eq!(process.status, None, "it did not end by itself");
    programs::sleep_until_ended(&sleeper, deadline)?;
    assert!(Instant::now() < deadline, "the process that it started is left");
    Ok(())
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
