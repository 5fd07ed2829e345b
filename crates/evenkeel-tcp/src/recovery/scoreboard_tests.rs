use super::*;

const MSS: u64 = 1000;

/// Returns a scoreboard of `segments` segments, each sent a millisecond after the one before.
fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::new(SeqNumber::new(u32::MAX - 2500));
    for number in 1..=segments {
        board.sent(ORIGIN + number * MSS, Instant::from_millis(number));
    }
    board
}

fn at(segment: u64) -> Position {
    ORIGIN + segment * MSS
}

fn sack(board: &mut Scoreboard, from: u64, to: u64) -> u64 {
    let mut count = 0;
    board.sack(at(from), at(to), |_| count += 1);
    count
}

#[test]
fn positions_and_sequence_numbers_go_round_together() {
    let board = board(5);
    let range = board.range(at(2), at(4));
    assert_eq!((board.position(range.start), board.position(range.end)), (at(2), at(4)));
    assert!(range.start.to_u32() > range.end.to_u32(), "across zero");
    assert_eq!(board.position(board.seq(ORIGIN) - 10), ORIGIN - 10);
}

#[test]
fn a_block_counts_each_segment_once_and_only_whole_ones() {
    let mut board = board(20);
    assert_eq!(sack(&mut board, 5, 10), 5);
    assert_eq!(sack(&mut board, 3, 12), 4);
    assert_eq!(sack(&mut board, 3, 12), 0);
    board.sack(at(14) + 1, at(17) - 1, |segment| assert_eq!(segment.start, at(15)));
    assert_eq!((board.sacked_segments(), board.pipe()), (10, 10_000));
}

#[test]
fn a_sacked_run_is_stepped_over_in_few_steps() {
    let mut board = board(10_000);
    // From behind, so that each step makes a run of its own.
    for number in (1..10_000).rev() {
        sack(&mut board, number, number + 1);
    }
    assert_eq!(board.unsacked_from(1), 10_000);
    // Path compression: now one step is enough.
    assert_eq!(board.segments[1].skip, 9_999);
    assert_eq!(sack(&mut board, 1, 10_000), 0);
}

#[test]
fn what_was_sent_before_the_newest_and_is_too_old_is_lost() {
    let mut board = board(10);
    let patience = Duration::from_millis(100);
    let newest = (Instant::from_millis(5), at(5));
    sack(&mut board, 4, 5);
    let (lost, next) = board.detect_overdue(newest, patience, Instant::from_millis(102));
    assert_eq!((lost, next), (2000, Some(Instant::from_millis(103))));
    let (lost, next) = board.detect_overdue(newest, patience, Instant::from_millis(200));
    assert_eq!((lost, next), (2000, None), "3 and 4, but nothing after 5");
}

#[test]
fn a_retransmission_is_judged_by_its_own_time() {
    let mut board = board(10);
    let patience = Duration::from_millis(10);
    sack(&mut board, 4, 5);
    board.detect_overdue((Instant::from_millis(5), at(5)), patience, Instant::from_millis(50));
    assert_eq!(board.sent_again(at(0), at(1), Instant::from_millis(60)), 1000);
    assert_eq!(board.first_lost().map(|segment| segment.start), Some(at(1)));
    let newest = (Instant::from_millis(61), at(11));
    let (lost, next) = board.detect_overdue(newest, patience, Instant::from_millis(69));
    // The other first transmissions are overdue by now: 6 to 10.
    assert_eq!((lost, next), (5000, Some(Instant::from_millis(70))));
    assert_eq!(board.detect_overdue(newest, patience, Instant::from_millis(70)), (1000, None));
    assert_eq!(board.first_lost().map(|segment| segment.start), Some(at(0)));
}

#[test]
fn parts_of_a_segment_are_sent_again_one_by_one() {
    let mut board = board(2);
    board.mark_lost_where(|_| true);
    assert_eq!(board.sent_again(at(0), at(0) + 400, Instant::from_millis(10)), 400);
    assert_eq!(board.first_lost().map(|segment| (segment.start, segment.len)), Some((at(0) + 400, 600)));
    assert_eq!(board.sent_again(at(0) + 400, at(1) + 100, Instant::from_millis(11)), 700);
    assert_eq!(board.first_lost().map(|segment| (segment.start, segment.len)), Some((at(1) + 100, 900)));
    assert_eq!((board.pipe(), board.lost_bytes(), board.segments()), (1100, 900, 4));
}

#[test]
fn taken_back_all_is_on_its_way_and_can_be_lost_again() {
    let mut board = board(10);
    board.mark_lost_where(|_| true);
    board.sent_again(at(0), at(1), Instant::from_millis(20));
    board.unmark_lost();
    assert_eq!((board.pipe(), board.lost_bytes(), board.first_lost()), (10_000, 0, None));
    let newest = (Instant::from_millis(100), at(10));
    let (lost, _) = board.detect_overdue(newest, Duration::from_millis(10), Instant::from_millis(100));
    assert_eq!(lost, 10_000);
}

#[test]
fn what_was_sent_again_and_acknowledged_is_forgotten_also_while_more_is_outstanding() {
    let mut board = board(3);
    for number in 3..1000 {
        board.mark_first_lost();
        board.sent_again(at(number - 3), at(number - 2), Instant::from_millis(number));
        board.sent(at(number + 1), Instant::from_millis(number));
        let repairs = board.repairs.as_ref().unwrap();
        assert!(repairs.resent.len() == 1 && repairs.lost.is_empty(), "{}", repairs.resent.len());
        board.acknowledge(at(number - 2), |_, _| {});
        assert!(board.repairs.is_none() && board.is_undisturbed() && board.segments() == 3);
    }
}

#[test]
fn an_empty_scoreboard_owns_no_memory() {
    let mut board = board(100);
    board.mark_lost_where(|_| true);
    board.sent_again(at(0), at(100), Instant::from_millis(200));
    board.acknowledge(at(100), |_, _| {});
    assert_eq!((board.segments.capacity(), board.repairs.is_none()), (0, true));
}

/// A receiver that takes back what it has acknowledged selectively leaves a segment first that was sent later
/// than those behind it.
#[test]
fn behind_a_first_segment_that_was_sent_again_others_may_be_older() {
    let mut board = board(5);
    board.mark_lost_where(|segment| segment.start == at(1));
    board.sent_again(at(1), at(2), Instant::from_millis(100));
    sack(&mut board, 1, 2);
    board.acknowledge(at(1), |_, _| {});
    assert!(board.repairs.is_none() && board.first().is_some_and(|first| first.fate == Fate::Sacked));
    assert!(!board.is_sent_since((Instant::from_millis(50), at(4))));
}
