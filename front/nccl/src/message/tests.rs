use super::*;

#[test]
fn a_handle_survives_its_bytes() {
    for address in ["192.0.2.1:4810", "[2001:db8::1]:65535"] {
        let handle = Handle {
            address: address.parse().unwrap(),
            to: To::new(0xf_1234).token(0xdead_beef),
            secret: *b"sixteen bytes ..",
            attempt: 1 << 63 | 5,
        };
        assert_eq!(Handle::from_bytes(&handle.to_bytes()), Ok(handle));
    }
}

#[test]
fn a_foreign_handle_is_refused() {
    let failure = Handle::from_bytes(&[0; HANDLE_BYTES]).unwrap_err();
    assert!(failure.text.contains("another plug-in"), "{}", failure.text);
}

#[test]
fn a_hello_survives_its_bytes() {
    let hello = Hello { secret: [7; 16], from: To::new(40).token(9) };
    let mut bytes = hello.to_bytes();
    assert_eq!(Hello::from_bytes(&bytes), Some(hello));
    for length in 0..HELLO_BYTES {
        assert_eq!(Hello::from_bytes(&bytes[..length]), None, "{length}");
    }
    bytes[0] ^= 1;
    assert_eq!(Hello::from_bytes(&bytes), None);
}

#[test]
fn an_announcement_survives_its_bytes() {
    for count in 1..=GROUP_MAX {
        let mut buffers = [Buffer::default(); GROUP_MAX];
        for (at, buffer) in buffers[..count].iter_mut().enumerate() {
            let at = at as u32;
            let (offset, size) = (u64::from(at) << 33, 1 << 30);
            *buffer = Buffer { tag: -5, token_id: at, token_value: !at, offset, size };
        }
        let notify = To::new(77).token(88);
        let announcement = Announcement { number: u32::MAX, notify, count, buffers };
        let mut bytes = [0xff; ANNOUNCEMENT_BYTES];
        let length = announcement.write(&mut bytes);
        assert_eq!(Announcement::read(&bytes[..length]), Some(announcement));
        assert_eq!(Announcement::read(&bytes[..length - 1]), None);
    }
}

#[test]
fn announcements_of_impossible_counts_are_refused() {
    for count in [0u32, 9, u32::MAX] {
        let mut bytes = [0; ANNOUNCEMENT_BYTES];
        bytes[12..16].copy_from_slice(&count.to_be_bytes());
        assert_eq!(Announcement::read(&bytes), None);
    }
    assert_eq!(Announcement::read(&[]), None);
}

#[test]
fn a_notification_survives_its_immediate_data() {
    let notification = Notification { number: NUMBER_MASK, buffer: 7, size: 1 << 30 };
    assert_eq!(Notification::from_immediate(notification.to_immediate()), notification);
    let wrapped = Notification { number: 0x0100_0003, buffer: 0, size: 0 };
    assert_eq!(Notification::from_immediate(wrapped.to_immediate()).number, 3);
}
