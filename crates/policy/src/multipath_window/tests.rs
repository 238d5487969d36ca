use super::*;
use crate::LossSample;
use alloc::vec::Vec;
use fairway_wire::Duration;

fn paths(initial_packets: u64) -> MultipathWindow {
    MultipathWindow::new(MultipathParameters { initial_packets, ..Default::default() })
}

fn view(in_flight: u32, rtt_us: u64) -> PathView {
    let smoothed_rtt = Duration::from_us(rtt_us);
    PathView { in_flight, smoothed_rtt, usable: true, ..PathView::default() }
}

fn ack(acked_packets: u32, marked_packets: u32) -> PathAck {
    PathAck { acked_packets, marked_packets, ..PathAck::default() }
}

fn loss(us: u64) -> LossSample {
    let now = Instant::ZERO + Duration::from_us(us);
    LossSample { now, smoothed_rtt: Duration::from_us(100), ..LossSample::default() }
}

fn choose(paths: &mut MultipathWindow, views: &[PathView], random: u32) -> usize {
    paths.choose(views, &ChunkRequest { now: Instant::ZERO, bytes: 1, random })
}

#[test]
fn windows_grow_by_one_per_window_and_fall_by_half_a_packet_per_mark() {
    let mut paths = paths(8);
    paths.on_ack(3, &ack(8, 0));
    assert_eq!((paths.window_packets(3), paths.window_packets(2)), (9, 8));
    // 9 + 3 / 9 − 5 / 2 = 6.833.
    paths.on_ack(3, &ack(8, 5));
    assert_eq!(paths.windows[3].packets.to_bits(), (6 << 16) + 54_613);
    paths.on_ack(3, &ack(1, 200));
    assert_eq!(paths.windows[3].packets.to_bits(), (6 << 16) + 21_845);
    for _ in 0..20 {
        paths.on_ack(3, &ack(2, 2));
    }
    assert_eq!(paths.windows[3].packets, Fixed::ONE);
    for _ in 0..2000 {
        paths.on_ack(3, &ack(1000, 0));
    }
    assert_eq!(paths.window_packets(3), 1024);
    paths.on_ack(9999, &ack(1, 1));
}

#[test]
fn a_loss_halves_one_window_once_per_round_trip() {
    let mut paths = paths(16);
    paths.on_loss(1, &loss(0));
    paths.on_loss(1, &loss(99));
    assert_eq!((paths.window_packets(0), paths.window_packets(1)), (16, 8));
    paths.on_loss(1, &loss(100));
    assert_eq!(paths.window_packets(1), 4);
}

#[test]
fn chunks_take_turns_over_the_paths_with_room() {
    let mut paths = paths(4);
    let down = PathView { usable: false, ..view(0, 1) };
    let views = [view(0, 1), view(4, 1), view(3, 1), down, view(1, 1)];
    let chosen: Vec<usize> = (0..5).map(|_| choose(&mut paths, &views, 0)).collect();
    assert_eq!(chosen, [0, 2, 4, 0, 2]);
    assert!(paths.has_room(&views));
    let full = [view(4, 1), view(5, 1), down];
    assert!(!paths.has_room(&full));
    // Packets that must leave although no path has room go to any usable path.
    let chosen: Vec<usize> = (0..3).map(|_| choose(&mut paths, &full, 0)).collect();
    assert_eq!(chosen, [0, 1, 0]);
}

#[test]
fn two_random_ones_with_room_can_be_compared_instead() {
    let parameters = MultipathParameters { pick: Pick::PowerOfTwo, ..Default::default() };
    let mut paths = MultipathWindow::new(parameters);
    let views = [view(99, 1), view(0, 30), view(0, 20), view(99, 1)];
    for random in [0, 0x8000_8000, u32::MAX, 0x1234_5678] {
        assert_eq!(choose(&mut paths, &views, random), 2, "the full ones are not drawn");
    }
    assert_eq!(choose(&mut paths, &[view(99, 1), view(3, 9)], 7), 1);
    assert!(choose(&mut paths, &[view(99, 1), view(99, 1)], 7) < 2);
}

#[test]
fn paths_that_carry_more_get_larger_windows() {
    // Path `n` carries `n + 1` packets per round trip and marks any more.
    let mut paths = MultipathWindow::new(MultipathParameters::default());
    for _ in 0..2000 {
        for path in 0..4u32 {
            let window = paths.window_packets(path as usize);
            let most = 8 * (path + 1);
            paths.on_ack(path as usize, &ack(window, window.saturating_sub(most)));
        }
    }
    for path in 0..4 {
        let most = 8 * (path as u32 + 1);
        assert!(paths.window_packets(path).abs_diff(most) <= 3, "{}", paths.window_packets(path));
    }
}
