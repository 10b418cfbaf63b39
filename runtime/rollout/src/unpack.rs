//! Takes `.wasm`, `.wasm.gz` and `.wasm.zst`, whatever the name says: by their first bytes.

use std::error::Error;
use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

const GZIP: &str = "gzip";
const ZSTD: &str = "zstd";
const XZ: &str = "xz";

/// What packed bytes begin with. What is packed by several threads begins with a frame to skip.
const FORMATS: [(&str, &[u8]); 4] = [
    (GZIP, &[0x1f, 0x8b]),
    (ZSTD, &[0x28, 0xb5, 0x2f, 0xfd]),
    (ZSTD, &[0x50, 0x2a, 0x4d, 0x18]),
    (XZ, &[0xfd, b'7', b'z', b'X', b'Z', 0]),
];

/// Why bytes cannot be unpacked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The stream breaks off or breaks the format's rules.
    #[error("its {format} stream is broken: {message}; pack and upload it again")]
    Broken {
        /// `gzip` or `zstd`
        format: &'static str,
        /// In what way.
        message: String,
    },
    /// Larger than the limit, counted while unpacking.
    #[error("unpacked it has more than {0} bytes; raise the limit component-bytes if that is right")]
    TooLarge(usize),
    /// Packed, and packed once more.
    #[error("it is packed twice: its {outer} stream holds one of {inner}; pack it once")]
    Twice {
        /// `gzip` or `zstd`
        outer: &'static str,
        /// What was in it.
        inner: &'static str,
    },
    /// Packed with something else.
    #[error("it is packed with {0}, which is not known; pack it with gzip or zstd")]
    Unknown(&'static str),
}

/// The component in `bytes`, of at most `limit` bytes when it has to be unpacked.
///
/// # Errors
///
/// See [`UnpackError`].
pub fn unpack(bytes: Vec<u8>, limit: usize) -> Result<Vec<u8>, UnpackError> {
    let Some(outer) = format(&bytes) else { return Ok(bytes) };
    let unpacked = match outer {
        GZIP => read(flate2::bufread::MultiGzDecoder::new(bytes.as_slice()), limit),
        ZSTD => read_frames(&bytes, limit),
        other => return Err(UnpackError::Unknown(other)),
    };
    let unpacked = unpacked.map_err(|error| UnpackError::Broken { format: outer, message: plain(&error) })?;
    if unpacked.len() > limit {
        return Err(UnpackError::TooLarge(limit));
    }
    format(&unpacked).map_or(Ok(unpacked), |inner| Err(UnpackError::Twice { outer, inner }))
}

/// How bytes are packed, if they are.
fn format(bytes: &[u8]) -> Option<&'static str> {
    FORMATS.into_iter().find(|(_, magic)| bytes.starts_with(magic)).map(|(name, _)| name)
}

/// The bytes, and one more than allowed when there are more.
fn read(decoder: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    decoder.take(most).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

/// The bytes of all frames of zstd, as [`read`]: the decoder knows only one, and does not compare checksums.
fn read_frames(mut packed: &[u8], limit: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    while !packed.is_empty() && unpacked.len() <= limit {
        match StreamingDecoder::new(&mut packed) {
            Ok(mut frame) => {
                unpacked.append(&mut read(&mut frame, limit.saturating_sub(unpacked.len()))?);
                let decoder = &frame.decoder;
                let sum = decoder.get_checksum_from_data().filter(|_| unpacked.len() <= limit);
                if sum.is_some() && sum != decoder.get_calculated_checksum() {
                    return Err(io::Error::other("its checksum is not that of its content"));
                }
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let rest = usize::try_from(length).ok().and_then(|length| packed.get(length..));
                packed = rest.ok_or(io::ErrorKind::UnexpectedEof)?;
            }
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(unpacked)
}

/// What a decoder complains of. Those of zstd mostly print their own insides.
fn plain(error: &io::Error) -> String {
    let inner = error.get_ref().map(|inner| inner as &(dyn Error + 'static));
    let causes = || std::iter::successors(inner, |error| (**error).source());
    let is_end = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    if is_end(error) || causes().any(|cause| cause.downcast_ref().is_some_and(is_end)) {
        return "it breaks off".to_owned();
    }
    match inner.and_then(|inner| inner.downcast_ref()) {
        Some(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
            format!("it needs a window of {requested} bytes, at most {max} are known")
        }
        Some(FrameDecoderError::DictNotProvided { .. }) => "it needs a dictionary".to_owned(),
        Some(_) => "its bytes are damaged".to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn all_three_forms_give_the_same_component() {
        let component = b"\0asm\x0d\0\x01\0 and so on".repeat(100);
        for packed in [component.clone(), gzip(&component), zstd(&component)] {
            assert_eq!(unpack(packed, 10_000), Ok(component.clone()));
        }
    }

    /// A frame that says nothing, of this many bytes.
    fn skipped(length: u8) -> Vec<u8> {
        [&[0x50, 0x2a, 0x4d, 0x18, length, 0, 0, 0][..], &vec![7; length.into()]].concat()
    }

    /// A change of the last bytes, which is the checksum.
    fn with_another_sum(mut packed: Vec<u8>) -> Vec<u8> {
        *packed.last_mut().unwrap() ^= 1;
        packed
    }

    #[test]
    fn what_several_threads_packed_is_read_to_its_end() {
        let (begin, end) = (b"\0asm\x0d\0\x01\0".repeat(100), b" and so on".repeat(100));
        let whole = [begin.clone(), end.clone()].concat();
        for packed in [
            [zstd(&begin), zstd(&end)].concat(),
            [skipped(4), zstd(&begin), skipped(0), zstd(&end), skipped(200)].concat(),
            [gzip(&begin), gzip(&end)].concat(),
        ] {
            assert_eq!(unpack(packed.clone(), whole.len()), Ok(whole.clone()));
            assert_eq!(unpack(packed, whole.len() - 1), Err(UnpackError::TooLarge(whole.len() - 1)));
        }
        let bomb = [zstd(&begin), zstd(&vec![0; 10 << 20])].concat();
        assert_eq!(unpack(bomb, 1 << 20), Err(UnpackError::TooLarge(1 << 20)));
    }

    #[test]
    fn a_stream_with_another_checksum_or_with_something_behind_it_is_broken() {
        let bytes = b"\0asm\x0d\0\x01\0 and so on".repeat(100);
        let sum = "its checksum is not that of its content";
        let cases = [
            (with_another_sum(zstd(&bytes)), sum),
            ([with_another_sum(zstd(&bytes)), zstd(&bytes)].concat(), sum),
            // What was written over a longer file.
            ([zstd(&bytes), b"old bytes".to_vec()].concat(), "its bytes are damaged"),
            ([zstd(&bytes), b"ol".to_vec()].concat(), "it breaks off"),
            ([skipped(9), zstd(&bytes), skipped(9)[..12].to_vec()].concat(), "it breaks off"),
            ([gzip(&bytes), b"old bytes, a header long".to_vec()].concat(), "invalid gzip header"),
        ];
        for (packed, why) in cases {
            let error = unpack(packed, 10_000).unwrap_err().to_string();
            assert!(error.contains(&format!(" stream is broken: {why}; pack and upload it again")), "{error} / {why}");
        }
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let zeros = vec![0; 10 << 20];
        assert_eq!(unpack(gzip(&zeros), 1 << 20), Err(UnpackError::TooLarge(1 << 20)));
        let error = unpack(zstd(&zeros), 1 << 20).unwrap_err();
        assert_eq!(error, UnpackError::TooLarge(1 << 20));
        assert!(error.to_string().contains("raise the limit component-bytes"), "{error}");
    }

    #[test]
    fn a_stream_that_breaks_off_is_named_wherever_it_does() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * i).to_le_bytes()[1]).collect();
        for (format, whole) in [(GZIP, gzip(&bytes)), (ZSTD, zstd(&bytes)), (ZSTD, zstd(&[7; 5000]))] {
            for length in 4..whole.len() {
                let error = unpack(whole[..length].to_vec(), 10_000).unwrap_err().to_string();
                let expected = format!("its {format} stream is broken: it breaks off; pack and upload it again");
                assert_eq!(error, expected, "{length} bytes of {}", whole.len());
            }
        }
    }

    #[test]
    fn a_stream_that_is_damaged_is_told_in_plain_words() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * i).to_le_bytes()[1]).collect();
        for (format, whole) in [(GZIP, gzip(&bytes)), (ZSTD, zstd(&bytes))] {
            for place in 4..whole.len() {
                let mut damaged = whole.clone();
                damaged[place] ^= 0x55;
                // Much of it nobody can notice.
                if let Err(error @ UnpackError::Broken { .. }) = unpack(damaged, 10_000) {
                    let error = error.to_string();
                    assert!(error.starts_with(&format!("its {format} stream is broken: ")), "{error}");
                    assert!(!error.contains(['{', '(', '"']), "{error}");
                }
            }
        }
    }

    #[test]
    fn what_is_packed_twice_or_with_something_else_is_told_so() {
        let component = b"\0asm\x0d\0\x01\0";
        let xz = b"\xfd7zXZ\0\0\x04".to_vec();
        let unknown = "it is packed with xz, which is not known; pack it with gzip or zstd";
        let cases = [
            (gzip(&gzip(component)), "it is packed twice: its gzip stream holds one of gzip; pack it once"),
            (gzip(&zstd(component)), "it is packed twice: its gzip stream holds one of zstd; pack it once"),
            (zstd(&gzip(component)), "it is packed twice: its zstd stream holds one of gzip; pack it once"),
            (gzip(&xz), "it is packed twice: its gzip stream holds one of xz; pack it once"),
            (xz, unknown),
        ];
        for (packed, expected) in cases {
            assert_eq!(unpack(packed, 10_000).unwrap_err().to_string(), expected);
        }
    }
}
