//! A schedule: the list of choices made, and the step to the next schedule.

/// Depth-first search of all lists of choices; every schedule is run from the start.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// For each choice of this run: the one taken, and the number of possibilities.
    stack: Vec<(u8, u8)>,
    depth: usize,
    how: How,
}

#[derive(Clone, Debug, Default)]
enum How {
    /// Takes the first possibility of each new choice; [`Choices::advance`] takes the next.
    #[default]
    First,
    /// Draws each new choice from a seed.
    Drawn(fairway_device::random::Random),
    /// Repeats a list that was drawn.
    Again,
}

impl Choices {
    /// Returns the first schedule.
    pub fn new() -> Self {
        Choices::default()
    }

    /// Returns the schedule that begins with `list` and continues with first possibilities; `drawn`
    /// if the list was drawn.
    pub fn listed(list: &[u8], drawn: bool) -> Self {
        let stack = list.iter().map(|&taken| (taken, u8::MAX)).collect();
        Choices { stack, depth: 0, how: if drawn { How::Again } else { How::First } }
    }

    /// Returns a schedule drawn from `seed`.
    pub fn drawn(seed: u64) -> Self {
        Choices { how: How::Drawn(fairway_device::random::Random::new(seed)), ..Self::default() }
    }

    /// True if this schedule was drawn, so that it implies nothing about others.
    pub fn is_drawn(&self) -> bool {
        !matches!(self.how, How::First)
    }

    /// Chooses one of `count` possibilities, which must be at least one.
    pub fn choose(&mut self, count: usize) -> usize {
        self.take(count, 1000)
    }

    /// As [`Self::choose`], but a drawn schedule mostly takes the first possibility.
    pub fn choose_rarely(&mut self, count: usize) -> usize {
        self.take(count, 150)
    }

    fn take(&mut self, count: usize, permille: u32) -> usize {
        assert!((1..=usize::from(u8::MAX)).contains(&count), "{count} possibilities");
        let count = count as u8;
        if self.depth == self.stack.len() {
            let taken = match &mut self.how {
                How::Drawn(random) => {
                    let (takes, other) = (random.chance(permille), random.below(u64::from(count)));
                    if takes { other as u8 } else { 0 }
                }
                How::First | How::Again => 0,
            };
            self.stack.push((taken, count));
        }
        let entry = &mut self.stack[self.depth];
        entry.0 = entry.0.min(count - 1);
        entry.1 = count;
        self.depth += 1;
        usize::from(entry.0)
    }

    /// Advances to the next schedule. Returns false if this was the last.
    pub fn advance(&mut self) -> bool {
        self.stack.truncate(self.depth);
        self.depth = 0;
        while let Some(last) = self.stack.last_mut() {
            if last.0 + 1 < last.1 {
                last.0 += 1;
                return true;
            }
            self.stack.pop();
        }
        false
    }

    /// Returns the choices made so far, without the trailing first possibilities.
    pub fn list(&self) -> Vec<u8> {
        let made = &self.stack[..self.depth.min(self.stack.len())];
        let end = made.iter().rposition(|entry| entry.0 > 0).map_or(0, |at| at + 1);
        made[..end].iter().map(|entry| entry.0).collect()
    }
}
