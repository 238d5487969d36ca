//! What an acknowledgement tells of the paths by which packets have arrived.

/// Most paths of which one acknowledgement tells.
pub const PATH_REPORTS_MAX: usize = 5;

/// What has arrived by one path since the last acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// The PSN of the last packet that has arrived by the path, less the acknowledgement's
    /// `cumulative`: −2048 to 2047.
    pub offset: i16,
    /// True if that packet was a retransmission.
    pub retry: bool,
    /// Packets that have arrived by the path with a congestion mark, 0 to
    /// [`PathReport::MARKS_MAX`].
    pub marks: u8,
    /// Time from that packet's arrival to the departure of the acknowledgement, in units of
    /// [`ECHO_DELAY_UNIT_NS`](crate::ECHO_DELAY_UNIT_NS); `u16::MAX` if it took that long, or
    /// longer.
    pub delay: u16,
}

impl PathReport {
    /// The most marks that a report counts; there may have been more.
    pub const MARKS_MAX: u8 = 7;
    /// Least and greatest offset.
    pub const OFFSETS: core::ops::RangeInclusive<i32> = -2048..=2047;

    /// The report as one word: offset (12 bits), retry, marks (3), delay (16).
    #[inline]
    pub(crate) const fn to_word(self) -> u32 {
        let offset = (self.offset as u32 & 0xFFF) << 20;
        let marks = (self.marks as u32 & Self::MARKS_MAX as u32) << 16;
        offset | (self.retry as u32) << 19 | marks | self.delay as u32
    }

    #[inline]
    pub(crate) const fn from_word(word: u32) -> PathReport {
        PathReport {
            offset: (word as i32 >> 20) as i16,
            retry: word & 1 << 19 != 0,
            marks: (word >> 16) as u8 & Self::MARKS_MAX,
            delay: word as u16,
        }
    }
}

/// Reports of several paths, at most [`PATH_REPORTS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReports {
    count: u8,
    /// Bytes, because words would have to be aligned, and packets would be larger.
    words: [[u8; 4]; PATH_REPORTS_MAX],
}

impl PathReports {
    /// No report.
    pub const NONE: PathReports = PathReports { count: 0, words: [[0; 4]; PATH_REPORTS_MAX] };

    /// Adds a report. False, without any change, if there is no room.
    #[must_use]
    #[inline]
    pub fn push(&mut self, report: PathReport) -> bool {
        self.push_word(report.to_word())
    }

    #[inline]
    pub(crate) fn push_word(&mut self, word: u32) -> bool {
        let Some(place) = self.words.get_mut(usize::from(self.count)) else { return false };
        *place = word.to_ne_bytes();
        self.count += 1;
        true
    }

    /// Number of reports.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is no report.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().map(|bytes| u32::from_ne_bytes(*bytes)).take(self.len())
    }

    /// The reports, in the order in which they were added.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = PathReport> + '_ {
        self.words().map(PathReport::from_word)
    }
}
