use super::*;
use crate::limits::GROUP_MAX;
use crate::message::ANNOUNCEMENT_BYTES;

/// The bytes of an announcement with a buffer of each tag.
fn bytes(number: u32, tags: &[i32]) -> Vec<u8> {
    let mut buffers = [Buffer::default(); GROUP_MAX];
    for (buffer, tag) in buffers.iter_mut().zip(tags) {
        *buffer = Buffer { tag: *tag, size: u64::from(number), ..Buffer::default() };
    }
    let (notify, count) = (To::new(40), tags.len());
    let mut bytes = [0; ANNOUNCEMENT_BYTES];
    let length = Announcement { number, notify, count, buffers }.write(&mut bytes);
    bytes[..length].to_vec()
}

/// Takes a buffer with this tag: its announcement and its index.
fn take(announced: &mut Announced, tag: i32) -> Option<(u32, usize)> {
    let place = announced.find(tag)?;
    announced.take(&place);
    Some((place.number, place.index))
}

#[test]
fn messages_of_a_tag_take_buffers_in_the_order_of_receives() {
    let mut announced = Announced::default();
    for (number, tags) in [(2, [7, 8]), (0, [7, 7]), (1, [8, 7])] {
        announced.add(&bytes(number, &tags)).unwrap();
    }
    let of_7 = [(0, 0), (0, 1), (1, 1), (2, 0)];
    let of_8 = [(1, 0), (2, 1)];
    assert_eq!(take(&mut announced, 8), Some(of_8[0]));
    of_7.iter().for_each(|place| assert_eq!(take(&mut announced, 7), Some(*place)));
    assert_eq!(take(&mut announced, 8), Some(of_8[1]));
    assert_eq!(take(&mut announced, 8), None);
    assert!(announced.open.is_empty());
}

#[test]
fn an_announcement_waits_for_those_before_it() {
    let mut announced = Announced::default();
    announced.add(&bytes(1, &[5])).unwrap();
    assert_eq!(announced.find(5), None);
    announced.add(&bytes(0, &[6])).unwrap();
    assert_eq!(take(&mut announced, 5), Some((1, 0)));
    assert_eq!(take(&mut announced, 6), Some((0, 0)));
}

#[test]
fn more_announcements_than_receives_are_refused() {
    let mut announced = Announced::default();
    for number in 0..ANNOUNCEMENTS as u32 {
        announced.add(&bytes(number, &[1])).unwrap();
    }
    assert!(announced.add(&bytes(ANNOUNCEMENTS as u32, &[1])).is_err());
    assert!(announced.add(&[1, 2, 3]).is_err());
}
