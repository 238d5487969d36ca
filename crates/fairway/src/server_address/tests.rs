use super::*;

#[test]
fn addresses_in_each_form_resolve_to_themselves() {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 80));
    let forms: [(ServerAddress, SocketAddr); 8] = [
        (v4.into(), v4),
        ((Ipv4Addr::LOCALHOST, 80).into(), v4),
        ((IpAddr::from(Ipv4Addr::LOCALHOST), 80).into(), v4),
        ((Ipv6Addr::LOCALHOST, 80).into(), v6),
        (("::1", 80).into(), v6),
        ("127.0.0.1:80".into(), v4),
        (String::from("127.0.0.1:80").into(), v4),
        ("[::1]:80".into(), v6),
    ];
    for (form, expected) in forms {
        assert_eq!(form.resolve().unwrap(), [expected], "{form:?}");
    }
}

#[test]
fn names_resolve_with_ipv4_first() {
    let found = ServerAddress::from("localhost:4810").resolve().unwrap();
    assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 4810));
    assert!(found.is_sorted_by_key(SocketAddr::is_ipv6), "{found:?}");
    assert_eq!(ServerAddress::from(("localhost", 4810)).resolve().unwrap(), found);
}

#[test]
fn text_that_is_no_address_is_refused_with_the_form_to_write() {
    for text in ["", "storage1", "storage1:", ":80", "storage1:0", "storage1:99999", "::1:80"] {
        let error = ServerAddress::from(text).resolve().unwrap_err();
        assert!(matches!(error, Error::Parameter { .. }), "{text:?}: {error:?}");
        assert!(error.to_string().contains("HOST:PORT"), "{error}");
    }
    assert!(ServerAddress::from((Ipv4Addr::LOCALHOST, 0)).resolve().is_err());
}

#[test]
fn unknown_host_is_named() {
    let error = ServerAddress::from("no-such-host.invalid:80").resolve().unwrap_err();
    assert!(matches!(error, Error::UnknownHost { .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}
