//! Pointers as programs pass them. Miri runs these tests, too.

use std::mem::offset_of;
use std::ptr::null;

use super::*;
use crate::abi::{Field, ibv_recv_wr, zeroed};

/// A struct as a C header defines it.
#[repr(C)]
struct Base {
    number: Field<u32>,
}

/// The object that contains the struct.
#[repr(C)]
struct Object {
    before: u64,
    base: Base,
    locked: Held<String>,
}

// SAFETY: `given` makes all of them, at this place of an `Object` from a box.
unsafe impl Handle for Base {
    type Object = Object;
    const FRONT: usize = offset_of!(Object, base);
}

impl Lockable for Base {
    type Value = String;

    fn lock(object: &Object) -> &Held<String> {
        &object.locked
    }
}

fn given() -> *mut Base {
    // SAFETY: the lock moves into the box here, and is not moved again.
    let locked = unsafe { Held::new("begun".to_owned()) };
    Base::give(Box::new(Object { before: 5, base: Base { number: Field::new(7) }, locked }))
}

#[test]
fn handle_leads_to_its_object_while_the_program_writes_a_field() {
    let handle = given();
    // SAFETY: the object is taken back below.
    let object = unsafe { Ptr::kept(handle) }.object();
    assert_eq!((object.before, object.base.number.get()), (5, 7));
    // SAFETY: what C does with `handle->number = 9`.
    unsafe { (&raw mut (*handle).number).cast::<u32>().write(9) };
    assert_eq!(object.base.number.get(), 9);
    // SAFETY: this is the last use.
    let last = unsafe { Last::found(handle) }.expect("no null pointer");
    assert_eq!(last.as_ptr().handle().number.get(), 9);
    assert_eq!(last.take().before, 5);
}

#[test]
fn lock_taken_by_one_call_is_released_by_a_later_one() {
    let handle = given();
    // SAFETY: the object is taken back below.
    let object = unsafe { Ptr::kept(handle) };
    object.object().locked.acquire().push_str(", continued");
    let (_, mut value) = Locked(object).open();
    value.push_str(", ended");
    value.release();
    assert_eq!(object.object().locked.with(|value| value.clone()), "begun, continued, ended");
    // SAFETY: this is the last use.
    drop(unsafe { Last::found(handle) }.map(Last::take));
}

#[test]
fn list_of_requests_ends_with_a_null_pointer() {
    let mut requests: [ibv_recv_wr; 3] = zeroed();
    let start = requests.as_mut_ptr();
    for at in 0..3 {
        // SAFETY: the index is within the array.
        unsafe {
            (*start.add(at)).wr_id = at as u64;
            (*start.add(at)).next = if at == 2 { null_mut() } else { start.add(at + 1) };
        }
    }
    // SAFETY: a list that stays as it is.
    let list = unsafe { List::found(start) };
    let ids = |count| list.after(count).first().map(|request| request.wr_id);
    assert_eq!([0, 1, 2, 3, 4].map(ids), [Some(0), Some(1), Some(2), None, None]);
    // SAFETY: a request without bytes.
    assert_eq!(unsafe { list.first().expect("a request").entries() }.map(<[_]>::len), Ok(0));
}

#[test]
fn array_may_be_null_if_its_length_is_zero() {
    let none = Array::<u16>::found(null());
    // SAFETY: as the test says.
    unsafe {
        assert_eq!(none.elements(0), []);
        assert!(none.room(0).is_empty());
        assert_eq!(none.checked(0), Some(&[][..]));
        assert_eq!(none.checked(2), None);
    }
    let mut numbers = [1_u16, 2, 3];
    let some = Array::from(&mut numbers[..]);
    // SAFETY: no more than there are.
    unsafe {
        assert_eq!(some.checked(2), Some(&[1, 2][..]));
        some.room(3)[2].write(9);
    }
    assert_eq!(numbers, [1, 2, 9]);
}

#[test]
fn prefix_is_cut_to_the_size_of_the_program_or_filled_up_with_zeroes() {
    let written = |size| {
        let mut room = [MaybeUninit::new(0xff_u8); 9];
        // SAFETY: the room has at least this size, at an odd address, too.
        unsafe { Out::at(&mut room[1..]).write_prefix(&0x0102_0304_u32.to_be(), size) };
        // SAFETY: all were initialised above.
        room.map(|byte| unsafe { byte.assume_init() })
    };
    assert_eq!(written(2), [255, 1, 2, 255, 255, 255, 255, 255, 255]);
    assert_eq!(written(6), [255, 1, 2, 3, 4, 0, 0, 255, 255]);
}

#[test]
fn array_of_pointers_ends_with_a_null_pointer() {
    let mut items = [1_u8, 2];
    let addresses = items.each_mut().map(std::ptr::from_mut);
    let array = null_ended(addresses.into_iter()).expect("memory");
    // SAFETY: two pointers and a null pointer, which are freed after the last use.
    unsafe {
        assert_eq!(std::slice::from_raw_parts(array, 3), [addresses[0], addresses[1], null_mut()]);
        libc::free(array.cast());
    }
}
