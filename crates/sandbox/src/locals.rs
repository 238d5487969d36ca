//! The number of locals of a module's functions, which neither engine limits.

/// Length of the magic number and the version, with which a module begins.
const HEADER_BYTES: usize = 8;
/// Number of the section with the functions' bodies.
const CODE_SECTION: u8 = 10;
/// First bytes of types that have a second part: references to what it names.
const REFERENCES: [u8; 2] = [0x63, 0x64];

/// Returns the largest number of locals of a function, parameters excluded. The engine has accepted
/// the module before; `None`: its sections cannot be read nevertheless.
pub(crate) fn most_locals(module: &[u8]) -> Option<u64> {
    let mut module = Reader(module.get(HEADER_BYTES..)?);
    let mut most = 0;
    while !module.0.is_empty() {
        let section = module.byte()?;
        let mut content = module.block()?;
        if section != CODE_SECTION {
            continue;
        }
        for _ in 0..content.number()? {
            most = most.max(content.block()?.locals()?);
        }
    }
    Some(most)
}

/// What is left to be read.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// An integer in groups of 7 bits, the least significant first.
    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..32).step_by(7) {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number of bytes, and these bytes.
    fn block(&mut self) -> Option<Reader<'b>> {
        let length = self.number()?;
        let (block, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(Reader(block))
    }

    /// The number of locals that a function's body declares, in groups of one type each.
    fn locals(&mut self) -> Option<u64> {
        let mut locals = 0;
        for _ in 0..self.number()? {
            locals += u64::from(self.number()?);
            if REFERENCES.contains(&self.byte()?) {
                self.number()?;
            }
        }
        Some(locals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(text: &str) -> Option<u64> {
        most_locals(&wat::parse_str(text).expect("a module"))
    }

    #[test]
    fn locals_of_all_types_are_counted_and_parameters_are_not() {
        assert_eq!(most("(module)"), Some(0));
        assert_eq!(most("(module (func (param i32 i64)))"), Some(0));
        let types = "i32 i32 i64 funcref (ref null func) externref i64";
        let text = format!("(module (memory 1) (func (local i32)) (func (local {types})))");
        assert_eq!(most(&text), Some(7));
        let many = format!("(module (func (local {})) (data \"\"))", "i64 ".repeat(40_000));
        assert_eq!(most(&many), Some(40_000));
        let groups = format!("(module (func (local {})))", "i64 i32 ".repeat(20_000));
        assert_eq!(most(&groups), Some(40_000));
    }

    #[test]
    fn modules_that_are_cut_off_are_not_examined() {
        let module = wat::parse_str("(module (func (local i64 i32)))").expect("a module");
        assert_eq!(most_locals(&module), Some(2));
        let whole = [HEADER_BYTES, 14, 18];
        for length in 0..module.len() {
            let counted = most_locals(&module[..length]);
            assert_eq!(counted.is_some(), whole.contains(&length), "{length} bytes");
        }
        let endless = [&module[..HEADER_BYTES], &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]].concat();
        assert_eq!(most_locals(&endless), None);
    }
}
