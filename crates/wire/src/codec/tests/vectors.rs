//! The files in `vectors/`: one datagram each, to test this codec and others.
//!
//! A file holds lines `name: …`, `about: …` and `hex: …` (several, joined). The value of each is
//! built here, so that both directions are compared.

use std::string::String;

use super::*;

struct Vector {
    file: &'static str,
    /// The headers, or the whole set-up message.
    meant: Decoded,
    payload: &'static [u8],
}

fn route() -> Route {
    Route {
        source: Cna::new(0x0a_0b0c),
        destination: Cna::new(0x0d_0e0f),
        source_tpn: Tpn::new(0x00_0102),
        destination_tpn: Tpn::new(0x00_0304),
        path: 5,
        priority: Priority::DATA,
        cci: Default::default(),
    }
}

/// The route of a packet with this payload.
fn route_for(packet: &Packet, payload: &[u8]) -> Route {
    Route { priority: Priority::of(packet, payload.len() as u32), ..route() }
}

fn packet(file: &'static str, packet: Packet, payload: &'static [u8]) -> Vector {
    let header_len = header_len(&packet);
    let meant = Decoded::Packet { route: route_for(&packet, payload), packet, header_len };
    Vector { file, meant, payload }
}

fn data(file: &'static str, operation: Operation, payload: &'static [u8]) -> Vector {
    packet(file, Packet::Data(sample_data(operation)), payload)
}

/// The content of a vector file, by name.
macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../vectors/", $name, ".hex"))
    };
}

const IMMEDIATE: u64 = 0x0123_4567_89ab_cdef;

fn data_vectors() -> [Vector; 9] {
    let (access, target, immediate) = (sample_access(), sample_target(), IMMEDIATE);
    let continuation =
        Data { index: 3, retry: true, last: false, ..sample_data(Operation::Continuation) };
    [
        data(file!("write"), Operation::Write { access }, b"data"),
        data(
            file!("write_immediate"),
            Operation::WriteImmediate { access, target, immediate },
            b"data",
        ),
        data(file!("send"), Operation::Send { target, length: 5 }, b"hello"),
        data(
            file!("send_immediate"),
            Operation::SendImmediate { target, length: 0, immediate },
            b"",
        ),
        packet(file!("learned"), Packet::Data(continuation), b"more"),
        data(file!("read"), Operation::Read { access }, b""),
        data(file!("read_response"), Operation::ReadResponse, b"data"),
        carrying(file!("send_carrying"), Operation::Send { target, length: 5 }, b"hello"),
        carrying(file!("write_carrying"), Operation::Write { access }, b"data"),
    ]
}

/// A data packet that carries an acknowledgement.
fn carrying(file: &'static str, operation: Operation, payload: &'static [u8]) -> Vector {
    let carried = CarriedAck::new(Psn::new(0x00f1_e2d3), AckFlags::ECHO, 0x0123, 0x4567);
    let data = Data { carried: Some(carried), ..sample_data(operation) };
    packet(file, Packet::Data(data), payload)
}

fn ordered_vectors() -> [Vector; 5] {
    let write = Operation::Write { access: sample_access() };
    let order = Order {
        mode: ServiceMode::Rot,
        tag: Tag::So,
        in_order: true,
        sequence: 0x0102,
        receive_sequence: 0x0304,
        request_slot: 5,
    };
    let strict = Data { order, ..sample_data(write) };
    let (mode, tag) = (ServiceMode::Roi, Tag::Ro);
    let order = Order { mode, tag, in_order: false, receive_sequence: 0, ..order };
    let abandoned = Data { order, ..sample_data(Operation::Abandon) };
    let refusal = Some(Refusal::ReceiverNotReady);
    let mut others = Executed::NONE;
    assert!(others.push(8, 0x678a) && others.push(3, 0x678b));
    let several = Operation::Done { refusal: None, retry_after_us: 0, others };
    [
        packet(file!("write_ordered"), Packet::Data(strict), b"data"),
        packet(file!("abandon"), Packet::Data(abandoned), b""),
        data(
            file!("done"),
            Operation::Done { refusal: None, retry_after_us: 0, others: Executed::NONE },
            b"",
        ),
        data(file!("done_several"), several, b""),
        data(
            file!("done_not_ready"),
            Operation::Done { refusal, retry_after_us: 250, others: Executed::NONE },
            b"",
        ),
    ]
}

fn atomic_vectors() -> [Vector; 3] {
    let access = |length| Access { length, ..sample_access() };
    let compare_swap = Operation::Atomic {
        access: access(8),
        operator: AtomicOperator::CompareSwap,
        operand: 0x1111_2222_3333_4444,
        compare: 0xaaaa_bbbb_cccc_dddd,
    };
    let operator = AtomicOperator::Add;
    let add = Operation::Atomic { access: access(4), operator, operand: 5, compare: 0 };
    [
        data(file!("compare_swap"), compare_swap, b""),
        data(file!("fetch_add"), add, b""),
        data(file!("atomic_response"), Operation::AtomicResponse { value: IMMEDIATE }, b""),
    ]
}

fn mailbox_vectors() -> [Vector; 3] {
    let (mailbox, offset, key) = (0xd00d_0000_0001, 0x200, 0xbeef);
    let put = Put {
        mailbox,
        offset,
        sequence: 7,
        before: 0xe00,
        length: 4096,
        key,
        epoch: 3,
        named: true,
        oldest: false,
        follows: false,
    };
    let get = Get { mailbox, offset, length: 64, key, epoch: 0, named: false };
    [
        data(file!("put"), Operation::Put(put), b"data"),
        data(file!("get"), Operation::Get(get), b""),
        data(file!("abandon_put"), Operation::AbandonPut { mailbox, sequence: 7 }, b""),
    ]
}

fn part_vectors() -> [Vector; 2] {
    let access = Access { length: 4, ..sample_access() };
    let part = Part { access, before: 0x10_0000, whole: 0x10_0004 };
    [
        data(file!("write_part"), Operation::WritePart(part), b"data"),
        data(file!("read_part"), Operation::ReadPart(part), b""),
    ]
}

fn datagram_vector() -> Vector {
    let datagram = Datagram {
        number: 0x1_0000_0203,
        jetty: JettyId::new(0x12345),
        transaction: 0x6789,
        operation: Operation::Send { target: sample_target(), length: 5 },
    };
    packet(file!("datagram_send"), Packet::Datagram(datagram), b"hello")
}

fn bypass_vectors() -> [Vector; 4] {
    let access = |length| Access { length, ..sample_access() };
    let vector = |file, oldest, operation, payload| {
        let jetty = JettyId::new(0x12345);
        let bypass = Packet::Bypass(Bypass { number: 0x1_0203, oldest, jetty, operation });
        let route = Route { source_tpn: Tpn::new(0), ..route_for(&bypass, payload) };
        let header_len = header_len(&bypass);
        Vector { file, meant: Decoded::Packet { route, packet: bypass, header_len }, payload }
    };
    let oldest = 0x1_0200;
    let refusal = Some(Refusal::Rights);
    [
        vector(file!("load"), oldest, BypassOperation::Load { access: access(16) }, b""),
        vector(file!("store"), oldest, BypassOperation::Store { access: access(4) }, b"data"),
        vector(file!("load_response"), 0, BypassOperation::LoadResponse { refusal: None }, b"data"),
        vector(file!("store_done"), 0, BypassOperation::StoreDone { refusal }, b""),
    ]
}

/// An acknowledgement that tells of two paths.
fn reporting(ack: Ack) -> Ack {
    let mut paths = PathReports::NONE;
    for report in [
        PathReport { offset: 5, retry: false, marks: 2, delay: 12 },
        PathReport { offset: -1, retry: true, marks: 0, delay: u16::MAX },
    ] {
        assert!(paths.push(report));
    }
    Ack { paths, ..ack }
}

fn control_vectors() -> [Vector; 14] {
    let flags = AckFlags::ECHO.with(AckFlags::START_KNOWN);
    let selective = flags.with(AckFlags::SELECTIVE).with(AckFlags::REQUEST);
    let sack = Sack {
        base: Psn::new(100),
        highest: Psn::new(164),
        bitmap: [0xffff_fffe, 0x0000_00ff, 1, 0, 0, 0, 0, 0],
    };
    let (psn, message) = (Psn::new(100), Msn::new(4));
    let nak = Nak { psn, message, reason: Refusal::ReceiverNotReady, retry_after_us: 250 };
    let early = Nak { reason: Refusal::OutOfOrder, retry_after_us: 0, ..nak };
    let denied = Nak { reason: Refusal::Rights, retry_after_us: 0, ..nak };
    let credit = Credit { total_bytes: 0x12_3456_789a, class: Priority::new(4) };
    let demand = CreditRequest { total_bytes: 0x12_3456_789a, resend: false, blocked: true };
    let probe = Probe { number: 0x7654_3210, turn_ns: None };
    let trimmed = Nak { reason: Refusal::Trimmed { retry: true }, retry_after_us: 0, ..nak };
    [
        packet(file!("ack"), Packet::Ack(sample_ack(flags)), b""),
        packet(file!("ack_paths"), Packet::Ack(reporting(sample_ack(flags))), b""),
        packet(file!("selective_ack"), Packet::Ack(Ack { sack, ..sample_ack(selective) }), b""),
        packet(file!("nak_not_ready"), Packet::Nak(nak), b""),
        packet(file!("nak_out_of_order"), Packet::Nak(early), b""),
        packet(file!("nak_trimmed"), Packet::Nak(trimmed), b""),
        packet(file!("nak_rights"), Packet::Nak(denied), b""),
        packet(file!("void"), Packet::Void(Void { psn, message, ack_request: true }), b""),
        packet(
            file!("close"),
            Packet::Close(Close { next: Psn::new(0x0a0b0c), answer: true }),
            b"",
        ),
        packet(
            file!("retire"),
            Packet::Retire(Retire { channel: Tpn::new(0x0506), answer: false }),
            b"",
        ),
        packet(file!("demand"), Packet::CreditRequest(demand), b""),
        packet(file!("credit"), Packet::Credit(credit), b""),
        packet(file!("probe"), Packet::Probe(probe), b""),
        packet(file!("probe_answer"), Packet::Probe(Probe { turn_ns: Some(1500), ..probe }), b""),
    ]
}

fn setup_vectors() -> [Vector; 5] {
    let (version, nonce) = (PROTOCOL_VERSION, 0x1122_3344_5566_7788);
    let cookie = core::array::from_fn(|i| 0xc0 + i as u8);
    let endpoint = |tpn, psn, ports: &[u16]| Endpoint {
        tpn: Tpn::new(tpn),
        initial_psn: Psn::new(psn),
        ports: Ports::new(ports).expect("legal ports"),
    };
    let requested = Parameters {
        mtu_bytes: 4096,
        paths: 64,
        window_packets: 4096,
        message_slots: 128,
        read_slots: 64,
        keep_alive_ms: 200,
        channels: 4,
        capabilities: 0x8001,
    };
    let agreed =
        Parameters { mtu_bytes: 1408, paths: 8, channels: 2, capabilities: 1, ..requested };
    let versions = Versions::new(1, 2).expect("a legal range");
    let client = endpoint(0x102, 0x00ab_cdef, &[40_000, 40_001, 40_002, 40_003]);
    let server = endpoint(0x304, 0x0012_3456, &[4_793, 4_794]);
    let hello = Hello { versions, nonce, client, requested, joins: None };
    let joins = Some(Joins { leader: Tpn::new(0x101), number: 1 });
    let key = |first: u8| core::array::from_fn(|i| first + i as u8);
    let confirm =
        Confirm { hello: Hello { joins, ..hello }, version, cookie, agreed, key: key(0x40) };
    let reject = Reject { versions, nonce, reason: RejectReason::StaleCookie };
    let (near, far) = (Cna::new(0x0a_0b0c), Cna::new(0x0d_0e0f));
    let vector = |file, source, destination, message| Vector {
        file,
        meant: Decoded::Setup(Setup { source, destination, message }),
        payload: b"",
    };
    [
        vector(file!("hello"), near, Cna::new(0), SetupMessage::Hello(hello)),
        vector(
            file!("welcome"),
            far,
            near,
            SetupMessage::Welcome(Welcome { version, nonce, cookie, offer: agreed }),
        ),
        vector(file!("confirm"), near, far, SetupMessage::Confirm(confirm)),
        vector(
            file!("accept"),
            far,
            near,
            SetupMessage::Accept(Accept { version, nonce, server, agreed, key: key(0x80) }),
        ),
        vector(file!("reject"), far, near, SetupMessage::Reject(reject)),
    ]
}

/// The datagram in a vector file.
fn bytes_of(file: &str) -> Vec<u8> {
    let digits: String = file
        .lines()
        .filter_map(|line| line.strip_prefix("hex:"))
        .flat_map(|line| line.split_whitespace())
        .collect();
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = core::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).expect("hexadecimal")
        })
        .collect()
}

/// The encoding of the value of `vector`.
fn datagram(vector: &Vector) -> Vec<u8> {
    let mut out = [0; SETUP_LEN];
    let len = match &vector.meant {
        Decoded::Packet { route, packet, .. } => {
            encode(route, packet, vector.payload.len(), &mut out)
        }
        Decoded::Setup(setup) => encode_setup(setup, &mut out),
    };
    [&out[..len], vector.payload].concat()
}

fn vectors() -> Vec<Vector> {
    let mut all = Vec::new();
    all.extend(data_vectors());
    all.extend(ordered_vectors());
    all.extend(atomic_vectors());
    all.extend(mailbox_vectors());
    all.extend(part_vectors());
    all.push(datagram_vector());
    all.extend(bypass_vectors());
    all.extend(control_vectors());
    all.extend(setup_vectors());
    all
}

#[test]
fn vectors_are_what_we_send_and_what_we_read() {
    for vector in vectors() {
        let name = vector.file.lines().next().unwrap_or_default();
        let wanted = bytes_of(vector.file);
        assert_eq!(datagram(&vector), wanted, "{name}: encoding");
        assert_eq!(decode(&wanted, wanted.len()), Ok(vector.meant), "{name}: decoding");
    }
}

/// Prints the `hex:` lines of every vector: `cargo test -p fairway-wire print_vectors -- --ignored
/// --nocapture`. Only for a deliberate change of a layout, which requires a new version.
#[test]
#[ignore = "prints the vectors instead of testing them"]
fn print_vectors() {
    for vector in vectors() {
        std::println!("{}", vector.file.lines().next().unwrap_or_default());
        for line in datagram(&vector).chunks(16) {
            let words: Vec<String> = line
                .chunks(4)
                .map(|word| word.iter().map(|byte| std::format!("{byte:02x}")).collect())
                .collect();
            std::println!("hex: {}", words.join(" "));
        }
    }
}

/// The bytes in the words at the start of each line of the code block that follows `mention` in the
/// document.
fn documented(document: &str, mention: &str) -> Vec<u8> {
    let is_word = |word: &&str| word.len() == 8 && u32::from_str_radix(word, 16).is_ok();
    let (_, after) = document.split_once(mention).expect("the example is in the document");
    let block = after.split("```").nth(1).expect("a code block follows");
    let words = block.lines().flat_map(|line| line.split_whitespace().take_while(is_word));
    words.flat_map(|word| u32::from_str_radix(word, 16).expect("checked").to_be_bytes()).collect()
}

#[test]
fn the_documents_examples_are_the_vectors() {
    let document = include_str!("../../../../../docs/wire.md");
    for vector in vectors() {
        let name = vector.file.lines().next().and_then(|line| line.strip_prefix("name: "));
        let mention = std::format!("(`{}.hex`)", name.expect("a name"));
        if document.contains(&mention) {
            let shown = documented(document, &mention);
            assert!(shown.len() > MAX_HEADER / 3, "{mention}");
            let wanted = bytes_of(vector.file);
            assert!(wanted.starts_with(&shown), "{mention}");
            assert!(wanted[shown.len()..].iter().all(|byte| *byte == 0), "{mention}");
        }
    }
}
