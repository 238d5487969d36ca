//! Small programs: those of rdma-core and libfabric, qperf and fio.

use super::case::{Case, Client, End, Half, Proof, Ready};

fn texts(parts: &[&str]) -> Proof {
    Proof::Texts(parts.iter().map(|part| (*part).to_owned()).collect())
}

/// `ibv_*_pingpong`, which compare their buffers with `-c`.
pub fn pingpong() -> Client {
    let mut cases = Vec::new();
    for service in ["rc", "uc", "ud", "srq", "xsrq"] {
        for options in ["-c", "-e", "-c -s 1024"] {
            let name = format!("ibv_{service}_pingpong {options}");
            let common = format!("{name} -g 0 -d {{device}} -n 200 -p {{port}}");
            let (server, main) = (Half::new(&common), Half::new(&format!("{common} {{host}}")));
            let proof = texts(&["200 iters in"]);
            let mut case = Case::pair("pingpong", &name, (server, Ready::Listens), main, proof);
            case.refusal = (service == "xsrq").then_some("couldn't open the xrc domain");
            cases.push(if service.starts_with('u') { case.may_lose() } else { case });
        }
    }
    Client {
        name: "pingpong",
        install: "apt install ibverbs-utils".to_owned(),
        absent: None,
        cases,
    }
}

/// Programs that use the connection manager.
pub fn manager() -> Client {
    let mut cases = Vec::new();
    let mut add = |server: &str, main: &str, ready: Ready, proof: Proof| {
        let port = if matches!(ready, Ready::ListensAt(_)) { "" } else { " -p {port}" };
        let server = Half::new(&format!("{server}{port}"));
        let case = Half::new(&format!("{main}{port}"));
        cases.push(Case::pair(
            "rdma-cm",
            &main.replace("{host}", "HOST"),
            (server, ready),
            case,
            proof,
        ));
    };
    let connections = || Ready::Listens;
    for (size, pings) in [("", 20), (" -S 4096", 20), (" -S 65535", 5)] {
        let common = format!("-V -C {pings}{size}");
        let server = format!("rping -s -a {{host}} {common}");
        let main = format!("rping -c -a {{host}} -v {common}");
        let last = format!("ping data: rdma-ping-{}", pings - 1);
        add(&server, &main, connections(), texts(&[&last]));
    }
    add("rping -q -s -a {host} -V -C 5", "rping -q -c -a {host} -V -C 5 -v", connections(), {
        texts(&["ping data: rdma-ping-4"])
    });
    add("rping -s -a ::1 -V -C 5", "rping -c -a ::1 -V -C 5 -v", connections(), {
        texts(&["ping data: rdma-ping-4"])
    });
    for common in ["-c 1 -C 10 -S 100", "-c 20 -C 5 -S 4096"] {
        let (server, main) =
            (format!("ucmatose {common}"), format!("ucmatose -s {{host}} {common}"));
        let proof = texts(&["receiving data transfers", "return status 0"]);
        add(&server, &main, connections(), proof);
    }
    for common in ["-c 1 -C 10 -S 100", "-c 3 -C 5 -S 1000"] {
        let (server, main) = (format!("udaddy {common}"), format!("udaddy -s {{host}} {common}"));
        // In this program, -p is not a port.
        let ready = Ready::ListensAt(7174);
        add(&server, &main, ready, texts(&["receiving data transfers", "return status 0"]));
    }
    for (server, main) in [("rdma_server", "rdma_client"), ("rdma_xserver", "rdma_xclient")] {
        let main = format!("{main} -s {{host}}");
        add(server, &main, connections(), texts(&["client: end 0"]));
    }
    add("cmtime -c 50", "cmtime -c 50 -s {host}", connections(), texts(&["disconnect"]));
    add("rstream -S 4096 -C 20", "rstream -S 4096 -C 20 -s {host}", connections(), {
        texts(&["Gb/sec"])
    });
    add(
        "mckey -m 224.0.0.9 -b {host}",
        "mckey -s -m 224.0.0.9 -b {host}",
        Ready::Prints("joining"),
        texts(&["sending"]),
    );
    cases.iter_mut().for_each(fit_to_program);
    Client { name: "rdma-cm", install: "apt install rdmacm-utils".to_owned(), absent: None, cases }
}

/// Adapts the case of a program that differs from the others.
fn fit_to_program(case: &mut Case) {
    // The server of `cmtime` never ends.
    if let (true, Some(server)) = (case.name.starts_with("cmtime"), &mut case.server) {
        server.end = End::Ended;
    }
    // `mckey` has no such option.
    for half in case.server.iter_mut().map(|server| &mut server.half).chain([&mut case.main]) {
        if half.words.first().is_some_and(|program| program == "mckey") {
            half.words.retain(|word| word != "-p" && word != "{port}");
        }
    }
    case.lossy = case.name.starts_with("udaddy");
    case.short = case.name.starts_with("rping -c -a HOST -v -V -C 20 -S 4096")
        || case.name.starts_with("ucmatose -s HOST -c 20");
}

/// `fi_pingpong`, which compares its data with `-c`.
pub fn libfabric() -> Client {
    let mut cases = Vec::new();
    for (provider, endpoint) in
        [("verbs", "msg"), ("verbs", "dgram"), ("verbs;ofi_rxm", "rdm"), ("verbs;ofi_rxd", "rdm")]
    {
        for (options, last) in [("-S 64", "64"), ("-S 4096", "4k"), ("-S 65536", "64k"), ("", "1k")]
        {
            if endpoint == "dgram" && last.ends_with('k') && !options.is_empty() {
                // A datagram is one packet.
                continue;
            }
            for mode in ["msg", "tagged"] {
                if mode == "tagged" && endpoint != "rdm" {
                    continue;
                }
                let name = format!("-p {provider} -e {endpoint} -m {mode} {options}");
                let name = format!("fi_pingpong {}", name.trim_end());
                let half = |control: &str| {
                    Half::new("fi_pingpong -p")
                        .argument(provider)
                        .arguments(&format!("-e {endpoint} -m {mode} {options} -c -I 20"))
                        .arguments(&format!("{control} {{port}}"))
                };
                let main = half("-P").argument("{host}");
                let proof = texts(&[&format!("\n{last} ")]);
                let server = (half("-B"), Ready::Listens);
                cases.push(Case::pair("libfabric", &name, server, main, proof));
            }
        }
    }
    Client {
        name: "libfabric",
        install: "apt install libfabric-bin".to_owned(),
        absent: None,
        cases,
    }
}

/// qperf's tests of RDMA. Without `-cm 1` it needs LIDs, which Ethernet does not have.
pub fn qperf() -> Client {
    let tests = [
        "rc_lat",
        "rc_bw",
        "rc_bi_bw",
        "rc_rdma_read_lat",
        "rc_rdma_read_bw",
        "rc_rdma_write_lat",
        "rc_rdma_write_bw",
        "rc_rdma_write_poll_lat",
        "rc_compare_swap_mr",
        "rc_fetch_add_mr",
        "ver_rc_compare_swap",
        "ver_rc_fetch_add",
    ];
    let case = |test: &str| {
        let server = Half::new("qperf -lp {port}");
        let main = Half::new(&format!("qperf -lp {{port}} {{host}} -cm 1 -t 2 {test}"));
        let proof = Proof::Quantity;
        let name = format!("-cm 1 {test}");
        Case::pair("qperf", &name, (server, Ready::Listens), main, proof).served_for_ever()
    };
    let cases = tests.map(case).into();
    Client { name: "qperf", install: "apt install qperf".to_owned(), absent: None, cases }
}

/// fio's rdma engine.
pub fn fio() -> Client {
    let mut cases = Vec::new();
    for verb in ["write", "read", "send"] {
        for bytes in ["4k", "64k", "1m"] {
            let common = format!("fio --ioengine=rdma --port={{port}} --bs={bytes}");
            let total = if bytes == "4k" { "4m" } else { "32m" };
            let server =
                Half::new(&format!("{common} --name=target --rw=read --iodepth=16 --size={total}"));
            let main = Half::new(&format!("{common} --name=source --rw=write --iodepth=8"))
                .arguments(&format!("--hostname={{host}} --verb={verb} --size={total}"));
            let name = format!("verb={verb} bs={bytes}");
            let ready = Ready::Listens;
            let proof = texts(&["err= 0", "WRITE: bw="]);
            cases.push(Case::pair("fio", &name, (server, ready), main, proof));
        }
    }
    Client { name: "fio", install: "apt install fio".to_owned(), absent: None, cases }
}
