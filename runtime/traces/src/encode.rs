//! OTLP's messages in protobuf's encoding, as far as spans need them. They are few, and OTLP 1 never changes the numbers of fields.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::layer::{SpanData, Value};

/// Flags of a span, and of what it links to: it is sampled (1), and its parent is not in another process (0x100 for "known", without 0x200).
const FLAGS: u32 = 0x101;

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap_or_default());
    }

    /// A field with its kind: 0 varint, 1 eight bytes, 2 a length and as many bytes, 5 four bytes.
    fn field(&mut self, number: u32, kind: u32) {
        self.varint(u64::from(number << 3 | kind));
    }

    fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.field(field, 0);
            self.varint(number);
        }
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.whole(field, bytes);
        }
    }

    /// Also when there are none: a message without fields, or a value that is empty, is there all the same.
    fn whole(&mut self, field: u32, bytes: &[u8]) {
        self.field(field, 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or_default());
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.whole(field, &inner.0);
    }

    fn time(&mut self, field: u32, time: SystemTime) {
        let nanos = time.duration_since(UNIX_EPOCH).map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.field(field, 1);
        self.0.extend_from_slice(&nanos.unwrap_or_default().to_le_bytes());
    }

    fn flags(&mut self, field: u32) {
        self.field(field, 5);
        self.0.extend_from_slice(&FLAGS.to_le_bytes());
    }

    fn attribute(&mut self, field: u32, key: &str, value: &Value) {
        self.message(field, |pair| {
            pair.bytes(1, key.as_bytes());
            pair.message(2, |any| match value {
                Value::Text(value) => any.whole(1, value.as_bytes()),
                Value::Number(value) => {
                    any.field(3, 0);
                    any.varint(value.cast_unsigned());
                }
            });
        });
    }

    fn span(&mut self, span: &SpanData) {
        self.bytes(1, &span.place.trace.to_be_bytes());
        self.bytes(2, &span.place.span.to_be_bytes());
        if let Some(parent) = span.parent {
            self.bytes(4, &parent.to_be_bytes());
        }
        self.bytes(5, span.name.as_bytes());
        self.number(6, span.kind as u64);
        self.time(7, span.start);
        self.time(8, span.end);
        for (key, value) in &span.attributes {
            self.attribute(9, key, value);
        }
        for link in &span.links {
            self.message(13, |inner| {
                inner.bytes(1, &link.trace.to_be_bytes());
                inner.bytes(2, &link.span.to_be_bytes());
                inner.flags(6);
            });
        }
        if let Some(why) = &span.error {
            self.message(15, |status| {
                status.bytes(2, why.as_bytes());
                status.number(3, 2);
            });
        }
        self.flags(16);
    }
}

/// `ExportTraceServiceRequest`: spans of one process and one scope.
pub(crate) fn request(resource: &[(String, Value)], spans: &[SpanData]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |of_resource| {
        of_resource.message(1, |inner| {
            resource.iter().for_each(|(key, value)| inner.attribute(1, key, value));
        });
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| scope.bytes(1, crate::SCOPE.as_bytes()));
            spans.iter().for_each(|span| of_scope.message(2, |inner| inner.span(span)));
        });
    });
    request.0
}

/// `ExportTraceServiceResponse`: how many spans were not taken, and why; none where all were.
pub(crate) fn rejected(response: &[u8]) -> Option<(u64, String)> {
    let Field::Bytes(partial) = fields(response).find(|(number, _)| *number == 1)?.1 else { return None };
    let (mut spans, mut why) = (0, String::new());
    for field in fields(partial) {
        match field {
            (1, Field::Number(number)) => spans = number,
            (2, Field::Bytes(text)) => why = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    (spans > 0).then_some((spans, why))
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, up to the first one that this host's answers never have.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let key = take_varint(&mut rest)?;
        let value = take_varint(&mut rest)?;
        match key & 7 {
            0 => Some((key >> 3, Field::Number(value))),
            2 => {
                let (bytes, after) = rest.split_at_checked(usize::try_from(value).ok()?)?;
                rest = after;
                Some((key >> 3, Field::Bytes(bytes)))
            }
            _ => None,
        }
    })
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
