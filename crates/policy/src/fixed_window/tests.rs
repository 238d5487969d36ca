use super::FixedWindow;
use crate::{AckSample, CongestionControl, LossSample};

#[test]
fn window_never_changes() {
    let mut fixed = FixedWindow::new(1 << 20, 1408);
    let acked = AckSample { acked_bytes: 1 << 20, window_limited: true, ..AckSample::default() };
    fixed.on_ack(&acked);
    fixed.on_loss(&LossSample { lost_bytes: 1 << 20, by_timeout: true, ..LossSample::default() });
    assert_eq!(fixed.window_bytes(), 1 << 20);
    assert_eq!(fixed.pacing_bytes_per_second(), None);
}

#[test]
fn window_holds_at_least_a_packet() {
    assert_eq!(FixedWindow::new(0, 1408).window_bytes(), 1408);
}

#[test]
fn chunks_grow_with_the_window() {
    let chunk = |window, remaining| FixedWindow::new(window, 1408).chunk_bytes(remaining);
    let eight_large = 8 * 62 * 1024;
    assert_eq!(chunk(eight_large, u64::MAX), 62 * 1024);
    assert_eq!(chunk(eight_large - 1, u64::MAX), 32 * 1024);
    assert_eq!(chunk(eight_large, 100), 100);
    assert_eq!(chunk(10_000, u64::MAX), 10_000);
}
