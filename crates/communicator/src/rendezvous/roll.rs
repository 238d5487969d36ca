//! The ranks that have come to rank 0.

use super::Greeting;
use std::io::{ErrorKind, Read};

/// For each rank that has come: its record, and its connection, which rank 0 itself has not.
#[derive(Debug)]
pub(super) struct Roll<S> {
    places: Vec<Option<(Vec<u8>, Option<S>)>>,
}

impl<S: Read> Roll<S> {
    /// Only rank 0 has come.
    pub(super) fn new(ranks: u32, record: &[u8]) -> Roll<S> {
        let mut places: Vec<_> = (0..ranks).map(|_| None).collect();
        places[0] = Some((record.to_vec(), None));
        Roll { places }
    }

    /// Adds a rank. A number that no rank has, or that another connection has, is a stranger's.
    pub(super) fn add(&mut self, greeting: Greeting, stream: S) {
        if let Some(place @ None) = self.places.get_mut(greeting.rank as usize) {
            *place = Some((greeting.record, Some(stream)));
        }
    }

    /// Removes ranks whose connection is closed: their processes have ended.
    pub(super) fn drop_closed(&mut self) {
        for place in &mut self.places {
            if let Some((_, Some(stream))) = place
                && is_closed(stream)
            {
                *place = None;
            }
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.places.iter().all(Option::is_some)
    }

    /// The ranks that have not come.
    pub(super) fn missing(&self) -> Vec<u32> {
        let places = (0..).zip(&self.places);
        places.filter(|(_, place)| place.is_none()).map(|(rank, _)| rank).collect()
    }

    /// The records of all ranks that have come, and the connections of the others.
    pub(super) fn finish(self) -> (Vec<Vec<u8>>, Vec<(u32, S)>) {
        let (mut records, mut streams) = (Vec::new(), Vec::new());
        for (rank, place) in (0..).zip(self.places) {
            let Some((record, stream)) = place else { continue };
            records.push(record);
            streams.extend(stream.map(|stream| (rank, stream)));
        }
        (records, streams)
    }
}

/// True if the other side has closed a connection that does not block. It sends nothing after its
/// greeting.
fn is_closed(stream: &mut impl Read) -> bool {
    match stream.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::{answer, deadline};
    use std::io::{self, Write};
    use std::time::Duration;

    /// A connection, whose other side may have closed it.
    struct Stream {
        name: u32,
        is_closed: bool,
    }

    impl Read for Stream {
        fn read(&mut self, _room: &mut [u8]) -> io::Result<usize> {
            if self.is_closed { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) }
        }
    }

    impl Write for Stream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_closed { Err(ErrorKind::ConnectionReset.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn add(roll: &mut Roll<Stream>, rank: u32, name: u32, is_closed: bool) {
        let greeting = Greeting { rank, ranks: 3, record: vec![name as u8] };
        roll.add(greeting, Stream { name, is_closed });
    }

    #[test]
    fn rank_that_was_started_again_takes_its_place() {
        let mut roll = Roll::new(3, &[0]);
        add(&mut roll, 1, 10, true);
        // A second one with its number is a stranger as long as it is there.
        add(&mut roll, 1, 11, false);
        add(&mut roll, 7, 12, false);
        assert_eq!(roll.missing(), [2]);
        roll.drop_closed();
        assert_eq!(roll.missing(), [1, 2]);
        add(&mut roll, 1, 13, false);
        add(&mut roll, 1, 14, false);
        roll.drop_closed();
        add(&mut roll, 2, 20, false);
        assert!(roll.is_complete());
        let (records, streams) = roll.finish();
        assert_eq!(records, [[0], [13], [20]]);
        let names: Vec<_> = streams.iter().map(|(rank, stream)| (*rank, stream.name)).collect();
        assert_eq!(names, [(1, 13), (2, 20)]);
    }

    #[test]
    fn rank_that_goes_before_the_answer_is_named() {
        let stream = |name, is_closed| (name, Stream { name, is_closed });
        let records = vec![vec![0], vec![1], vec![2]];
        let end = deadline(Duration::from_secs(60));
        let sent = answer(vec![stream(1, false), stream(2, true)], &records, end);
        assert_eq!(sent.map_err(|(rank, _)| rank), Err(2));
        let sent = answer(vec![stream(1, false), stream(2, false)], &records, end);
        assert_eq!(sent.map_err(|(rank, _)| rank), Ok(()));
    }
}
