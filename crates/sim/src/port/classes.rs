//! The classes of data in a port's queue of data, which is sorted by class.

use super::{NONE, Queue};
use crate::packets::{CONTROL, PacketMeta};
use fairway_ub::wire::Priority;

/// Classes of data.
const CLASSES: usize = Priority::CONTROL.number() as usize;

/// The parts of a queue of data: the packets of each class are together, the highest class first,
/// and each part is first in, first out.
#[derive(Clone, Debug)]
pub(crate) struct DataClasses {
    /// The last packet of each part, the highest class first; [`NONE`] if the part is empty.
    last: [u32; CLASSES],
    bytes: [u32; CLASSES],
}

impl Default for DataClasses {
    fn default() -> Self {
        DataClasses { last: [NONE; CLASSES], bytes: [0; CLASSES] }
    }
}

impl DataClasses {
    /// Puts a packet behind those of its class and of higher ones. The port serves `classes`
    /// classes, that of control included.
    pub(super) fn push(
        &mut self,
        queue: &mut Queue,
        packets: &mut [PacketMeta],
        index: u32,
        classes: u8,
    ) {
        let PacketMeta { class, bytes, .. } = packets[index as usize];
        let part = part_of(class, classes);
        let before = self.last[..=part].iter().rev().copied().find(|last| *last != NONE);
        self.last[part] = index;
        self.bytes[part] += bytes;
        if before == Some(queue.tail) || queue.head == NONE {
            return queue.push(packets, index);
        }
        let next = match before {
            Some(before) => &mut packets[before as usize].next,
            None => &mut queue.head,
        };
        let next = std::mem::replace(next, index);
        packets[index as usize].next = next;
        queue.bytes += bytes;
    }

    /// Takes the last packet of the lowest class out of the queue, if that class is lower than the
    /// one of a packet that has no room.
    pub(super) fn displaced(
        &mut self,
        queue: &mut Queue,
        packets: &mut [PacketMeta],
        arriving: u32,
        classes: u8,
    ) -> Option<u32> {
        let taken = queue.tail;
        let waiting = *packets.get(taken as usize).filter(|_| queue.head != NONE)?;
        let part = part_of(waiting.class, classes);
        if part <= part_of(packets[arriving as usize].class, classes) {
            return None;
        }
        // The queue is linked in one direction only, so the packet before is searched for.
        let mut before = self.last[..part].iter().rev().copied().find(|last| *last != NONE);
        let first = before.map_or(queue.head, |last| packets[last as usize].next);
        self.last[part] = NONE;
        let mut at = first;
        while at != taken {
            (before, self.last[part]) = (Some(at), at);
            at = packets[at as usize].next;
        }
        match before {
            Some(last) => {
                packets[last as usize].next = NONE;
                queue.tail = last;
            }
            None => queue.head = NONE,
        }
        queue.bytes -= waiting.bytes;
        self.bytes[part] -= waiting.bytes;
        Some(taken)
    }

    /// Notes that the first packet of the queue was taken. Returns the bytes of its part before
    /// that.
    pub(super) fn popped(&mut self, packets: &[PacketMeta], index: u32, classes: u8) -> u32 {
        let waiting = packets[index as usize];
        let part = part_of(waiting.class, classes);
        if self.last[part] == index {
            self.last[part] = NONE;
        }
        let length = self.bytes[part];
        self.bytes[part] -= waiting.bytes;
        length
    }
}

/// The part of a data packet, 0 for the highest class. A port with fewer queues than there are
/// classes serves neighbouring classes as one.
fn part_of(class: u8, classes: u8) -> usize {
    debug_assert_ne!(class, CONTROL);
    let (queues, classes_of_data) = (usize::from(classes) - 1, CLASSES);
    let priority = classes_of_data - usize::from(class);
    queues - 1 - priority * queues / classes_of_data
}
