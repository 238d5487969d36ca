//! Parameters: `name=value:name=value`.

use fairway_wire::Duration;

/// Those that a policy was given, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a>(&'a str);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'a> {
    /// What is before the `=`.
    pub name: &'a str,
    /// What is behind it.
    pub value: &'a str,
}

impl<'a> Parameters<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Parameters(text)
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Parameter<'a>;

    fn next(&mut self) -> Option<Parameter<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let (item, rest) = self.0.split_once(':').unwrap_or((self.0, ""));
        self.0 = rest;
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        Some(Parameter { name, value })
    }
}

impl Parameter<'_> {
    /// Digits, and what is behind them.
    fn digits(&self) -> Option<(u64, &str)> {
        let end = self.value.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, unit) = self.value.split_at(end.min(15));
        Some((digits.parse().ok()?, unit))
    }

    /// A number, perhaps with K, M or G (powers of 1024).
    pub fn bytes(&self) -> Option<u64> {
        let (number, unit) = self.digits()?;
        match unit {
            "" => Some(number),
            "K" => Some(number << 10),
            "M" => Some(number << 20),
            "G" => Some(number << 30),
            _ => None,
        }
    }

    /// A rate with bps, Kbps, Mbps or Gbps (powers of 1000), in bits per second.
    pub fn bits(&self) -> Option<u64> {
        let (number, unit) = self.digits().filter(|(number, _)| *number <= 1_000_000_000)?;
        match unit {
            "bps" => Some(number),
            "Kbps" => Some(number * 1_000),
            "Mbps" => Some(number * 1_000_000),
            "Gbps" => Some(number * 1_000_000_000),
            _ => None,
        }
    }

    /// A time with ns, us, ms or s.
    pub fn time(&self) -> Option<Duration> {
        let (number, unit) = self.digits().filter(|(number, _)| *number <= 1_000_000)?;
        match unit {
            "ns" => Some(Duration::from_ns(number)),
            "us" => Some(Duration::from_us(number)),
            "ms" => Some(Duration::from_ms(number)),
            "s" => Some(Duration::from_secs(number)),
            _ => None,
        }
    }
}
