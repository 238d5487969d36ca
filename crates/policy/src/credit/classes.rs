//! Classes of data that is sent without credit, by the size of its message.

/// Number of classes of data. The lowest is 0.
pub const DATA_CLASSES: u8 = 7;

/// Highest number of classes of data that is sent without credit.
const UNSCHEDULED_MAX: usize = 4;

/// The classes in which a sender sends without credit: shorter messages have higher classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnscheduledClasses {
    /// Largest messages, in bytes, of the highest class and of those below it, in ascending order;
    /// 0 for a class that is not used.
    cutoffs: [u64; UNSCHEDULED_MAX - 1],
    /// Number of classes; 0 if all messages have the lowest class of data.
    count: u8,
}

impl UnscheduledClasses {
    /// All messages have the lowest class of data.
    pub const NONE: UnscheduledClasses = UnscheduledClasses { cutoffs: [0; 3], count: 0 };

    /// Messages of at most `cutoffs[0]` bytes have the highest class, those of at most `cutoffs[1]`
    /// the one below, and so on; longer ones have the class below those. Cut-offs of 0 are left
    /// out; the others must ascend.
    pub fn new(cutoffs: [u64; UNSCHEDULED_MAX - 1]) -> UnscheduledClasses {
        let mut classes = UnscheduledClasses { count: 1, ..UnscheduledClasses::NONE };
        for cutoff in cutoffs.into_iter().filter(|cutoff| *cutoff > 0) {
            classes.cutoffs[usize::from(classes.count) - 1] = cutoff;
            classes.count += 1;
        }
        classes
    }

    /// Number of classes of data that is sent without credit: the highest ones.
    pub fn count(&self) -> u8 {
        self.count
    }

    /// The class of the unscheduled bytes of a message.
    #[inline]
    pub fn class(&self, message_bytes: u64) -> u8 {
        if self.count == 0 {
            return 0;
        }
        let used = &self.cutoffs[..usize::from(self.count) - 1];
        let shorter = used.iter().filter(|cutoff| message_bytes > **cutoff).count();
        DATA_CLASSES - 1 - shorter as u8
    }
}

#[cfg(test)]
mod tests {
    use super::UnscheduledClasses;

    #[test]
    fn shorter_messages_have_higher_classes() {
        let classes = UnscheduledClasses::new([1_000, 0, 20_000]);
        let sizes = [0, 1_000, 1_001, 20_000, 20_001, u64::MAX];
        assert_eq!(sizes.map(|bytes| classes.class(bytes)), [6, 6, 5, 5, 4, 4]);
        assert_eq!(classes.count(), 3);
        assert_eq!(UnscheduledClasses::new([0; 3]).class(u64::MAX), 6);
        assert_eq!(UnscheduledClasses::NONE.class(0), 0);
    }
}
