//! Fields of the header's structs that more than one thread changes.

use std::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// A field of an object that the program, or another call on the same object, may write while a
/// call reads it. It has the size and alignment of `T`. C reads and writes it as a plain field.
///
/// Reads acquire and writes release, so that a thread that reads a pointer also sees the object
/// behind it.
#[repr(transparent)]
pub struct Field<T: Word>(T::Atomic);

/// A type that the processor reads and writes atomically.
pub trait Word: Copy {
    type Atomic;

    fn atomic(self) -> Self::Atomic;
    fn load(place: &Self::Atomic) -> Self;
    fn store(self, place: &Self::Atomic);
    fn swap(self, place: &Self::Atomic) -> Self;
}

macro_rules! words {
    ($([$($parameter:ident)?] $word:ty: $atomic:ty;)*) => {
        $(impl$(<$parameter>)? Word for $word {
            type Atomic = $atomic;

            fn atomic(self) -> Self::Atomic {
                <$atomic>::new(self)
            }

            #[inline]
            fn load(place: &Self::Atomic) -> Self {
                place.load(Ordering::Acquire)
            }

            #[inline]
            fn store(self, place: &Self::Atomic) {
                place.store(self, Ordering::Release);
            }

            #[inline]
            fn swap(self, place: &Self::Atomic) -> Self {
                place.swap(self, Ordering::AcqRel)
            }
        })*
    };
}

words! {
    [] u8: AtomicU8;
    [] i32: AtomicI32;
    [] u32: AtomicU32;
    [] u64: AtomicU64;
    [] usize: AtomicUsize;
    [P] *mut P: AtomicPtr<P>;
}

impl<T: Word> Field<T> {
    pub fn new(value: T) -> Field<T> {
        Field(value.atomic())
    }

    #[inline]
    pub fn get(&self) -> T {
        T::load(&self.0)
    }

    #[inline]
    pub fn set(&self, value: T) {
        value.store(&self.0);
    }

    /// Writes a value and returns the previous one. Concurrent calls each return a different one.
    pub fn replace(&self, value: T) -> T {
        value.swap(&self.0)
    }
}

impl<P> Field<*mut P> {
    pub fn null() -> Field<*mut P> {
        Field::new(std::ptr::null_mut())
    }

    /// Writes a null pointer and returns the previous pointer.
    pub fn take(&self) -> *mut P {
        self.replace(std::ptr::null_mut())
    }
}

impl Field<u32> {
    /// Adds to a counter of events.
    pub fn add(&self, events: u32) {
        self.0.fetch_add(events, Ordering::AcqRel);
    }
}

impl Field<i32> {
    /// Adds to a counter of users.
    pub fn add(&self, users: i32) {
        self.0.fetch_add(users, Ordering::AcqRel);
    }
}
