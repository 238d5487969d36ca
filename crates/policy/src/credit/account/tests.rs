use super::*;

fn credit_request(total_bytes: u64, blocked: bool) -> CreditRequest {
    CreditRequest { total_bytes, blocked, resend: false }
}

#[test]
fn totals_add_up() {
    let mut account = Account::default();
    account.announced(&credit_request(1000, false), 0);
    account.grant(300);
    assert_eq!((account.owed(), account.outstanding(), account.remaining()), (700, 300, 1000));
    assert_eq!(account.arrived(200), 0);
    // 50 more than the granted credit that is known to be outstanding: credit may have been under
    // way when the sender reported that it had none.
    assert_eq!(account.arrived(150), 0);
    assert_eq!((account.owed(), account.outstanding()), (700, 0));
    // An old request that arrives late changes nothing.
    account.announced(&credit_request(900, false), 0);
    assert_eq!(account.owed(), 700);
    account.grant(800);
    assert_eq!((account.owed(), account.ahead()), (0, 100));
}

#[test]
fn waiting_sender_counts_as_having_missed_its_grants() {
    let mut account = Account::default();
    account.announced(&credit_request(1000, false), 0);
    account.grant(1000);
    account.announced(&credit_request(1000, false), 0);
    assert!(!account.has_missed());
    account.announced(&credit_request(1000, true), 0);
    assert_eq!((account.has_missed(), account.outstanding()), (true, 0));
    account.grant(0);
    assert!(!account.has_missed());
    // The sender waits for credit that was never granted, so it has not certainly missed any.
    account.announced(&credit_request(1400, true), 0);
    assert_eq!((account.has_missed(), account.owed()), (false, 400));
}

#[test]
fn lost_credit_does_not_stay_outstanding() {
    let mut account = Account::default();
    account.announced(&credit_request(1000, false), 0);
    account.grant(1000);
    account.arrived(600);
    account.announced(&CreditRequest { total_bytes: 1100, resend: true, blocked: false }, 0);
    assert_eq!((account.outstanding(), account.owed(), account.remaining()), (300, 100, 400));
}

#[test]
fn first_bytes_of_a_new_sender_count_as_not_granted() {
    let mut account = Account::default();
    account.announced(&credit_request(1000, false), 100);
    assert_eq!(Account::default().arrived(60), 60, "a source without requests has no credit");
    account.grant(300);
    assert_eq!((account.arrived(60), account.arrived(60)), (60, 40));
    assert_eq!(account.outstanding(), 280);
    // The sender has not been idle since.
    account.announced(&credit_request(1200, false), 100);
    assert_eq!(account.arrived(60), 0);
}
