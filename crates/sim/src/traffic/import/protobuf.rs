//! The wire format of protobuf, as far as Chakra's messages need it.

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A varint.
    Number(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A string, message or packed list.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of a string or message.
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// A number of any integer type without a sign.
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Value::Number(number) | Value::Fixed64(number) => Some(number),
            Value::Fixed32(number) => Some(number.into()),
            Value::Bytes(_) => None,
        }
    }

    /// The numbers of a repeated field: one, or a packed list of varints.
    pub(super) fn numbers(self) -> Option<Vec<u64>> {
        let Value::Bytes(mut rest) = self else { return Some(vec![self.number()?]) };
        let mut numbers = Vec::new();
        while !rest.is_empty() {
            numbers.push(varint(&mut rest)?);
        }
        Some(numbers)
    }
}

/// Takes a varint off the front.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7F);
        if part.checked_shl(shift)? >> shift != part {
            return None;
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes `count` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Takes a message with its length off the front.
pub(super) fn message<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = varint(bytes)?;
    take(bytes, length)
}

/// The fields of a message, by number, in order; `None` if it is no message.
pub(super) fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)?),
            1 => Value::Fixed64(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
            2 => Value::Bytes(message(&mut bytes)?),
            5 => Value::Fixed32(u32::from_le_bytes(take(&mut bytes, 4)?.try_into().ok()?)),
            _ => return None,
        };
        if key >> 3 == 0 {
            return None;
        }
        fields.push((key >> 3, value));
    }
    Some(fields)
}

/// True if the bytes begin with a message as Chakra's files do: the metadata, with a version.
pub(super) fn is_likely(mut bytes: &[u8]) -> bool {
    let metadata = message(&mut bytes).filter(|first| !first.is_empty());
    metadata.and_then(fields).is_some_and(|fields| {
        let of_metadata =
            |(number, value): &(u64, Value<'_>)| matches!(number, 1 | 2) && value.bytes().is_some();
        fields.iter().all(of_metadata)
    })
}
