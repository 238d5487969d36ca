use super::*;

fn is_met(text: &str, seed: u64) -> bool {
    Condition::parse(text).unwrap().is_met(&Plan::draw(seed))
}

#[test]
fn condition_compares_a_quantity_of_the_plan() {
    for seed in 0..50 {
        let plan = Plan::draw(seed);
        let (close, nodes) = (u64::from(plan.close), plan.limits.len() as u64);
        assert_eq!(is_met("close", seed), close > 0);
        assert_eq!(is_met("close<=0", seed), close == 0);
        for bound in [2, 3, 8] {
            assert_eq!(is_met(&format!("nodes>={bound}"), seed), nodes >= bound);
            assert_eq!(is_met(&format!("nodes<={bound}"), seed), nodes <= bound);
        }
    }
}

#[test]
fn each_name_is_read_and_differs_from_the_others() {
    let names: Vec<_> = Condition::quantities().collect();
    let known: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(known.len(), names.len());
    assert!(names.iter().all(|name| Condition::parse(name).is_some()));
}

#[test]
fn each_quantity_differs_between_plans() {
    let plans: Vec<_> = (0..2_000).map(Plan::draw).collect();
    for quantity in &QUANTITIES {
        let first = (quantity.of)(&plans[0]);
        let differs = plans.iter().any(|plan| (quantity.of)(plan) != first);
        assert!(differs, "{} is {first} in all plans", quantity.name);
    }
}

#[test]
fn condition_with_unknown_name_or_number_is_refused() {
    for wrong in ["", "close>=", "close>=x", "closes", "close>=-1", "close=3", ">=3"] {
        assert_eq!(Condition::parse(wrong), None, "{wrong}");
    }
}
