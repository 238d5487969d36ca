use super::*;
use crate::plan::draw_links;
use fairway_ub::policy::PolicySpec;

fn policies(links: &[Link]) -> Vec<PolicySpec> {
    links.iter().flat_map(|link| link.policies).collect()
}

#[test]
fn most_worlds_keep_what_they_had_and_the_others_get_everything() {
    let mut kept = 0;
    let mut names = std::collections::BTreeSet::new();
    for seed in 0..1000 {
        let mut links = draw_links(&mut Random::fork(seed, 1), 3);
        let before = policies(&links);
        override_some(&mut Random::fork(seed, 8), &mut links);
        let after = policies(&links);
        kept += u32::from(before == after);
        for spec in after.iter().filter(|spec| !before.contains(spec)) {
            let text = spec.to_string();
            names.extend(
                text.split([',', ':'])
                    .map(str::to_owned)
                    .filter(|part| ["cc=", "path="].iter().any(|kind| part.starts_with(kind))),
            );
        }
    }
    assert!((650..750).contains(&kept), "{kept}");
    for name in ["cc=cubic", "cc=timely", "cc=dcqcn", "cc=caqm", "path=plb"] {
        assert!(names.contains(name), "{name} is missing in {names:?}");
    }
}

#[test]
fn a_quarter_of_the_worlds_have_signals_of_paths() {
    let mut kept = 0;
    let mut names = std::collections::BTreeSet::new();
    for seed in 0..1000 {
        let mut links = draw_links(&mut Random::fork(seed, 1), 3);
        let before = policies(&links);
        use_signals(seed, &mut links);
        let after = policies(&links);
        kept += u32::from(before == after);
        names.extend(after.iter().flat_map(|spec| {
            let text = spec.to_string();
            text.split([',', ':']).map(str::to_owned).collect::<Vec<_>>()
        }));
    }
    assert!((700..800).contains(&kept), "{kept}");
    for name in ["cc=nscc", "path=bitmap", "path=reps", "explore=random", "loss=rack"] {
        assert!(names.contains(name), "{name} is missing in {names:?}");
    }
}
