//! Takes `.wasm`, `.wasm.gz` and `.wasm.zst`, whatever the name says: by their first bytes.

use std::io::Read;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why bytes cannot be unpacked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnpackError {
    /// The stream breaks off or breaks the format's rules.
    #[error("its {format} stream is broken: {message}; pack and upload it again")]
    Broken {
        /// `gzip` or `zstd`
        format: &'static str,
        /// The decoder's words.
        message: String,
    },
    /// Larger than the limit, counted while unpacking.
    #[error("unpacked it has more than {0} bytes (limit component-bytes)")]
    TooLarge(usize),
}

/// The component in `bytes`, of at most `limit` bytes when it has to be unpacked.
///
/// # Errors
///
/// See [`UnpackError`].
pub(crate) fn unpack(bytes: Vec<u8>, limit: usize) -> Result<Vec<u8>, UnpackError> {
    if bytes.starts_with(&GZIP) {
        return read("gzip", flate2::bufread::MultiGzDecoder::new(bytes.as_slice()), limit);
    }
    if bytes.starts_with(&ZSTD) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice())
            .map_err(|error| UnpackError::Broken { format: "zstd", message: error.to_string() })?;
        return read("zstd", decoder, limit);
    }
    Ok(bytes)
}

fn read(format: &'static str, decoder: impl Read, limit: usize) -> Result<Vec<u8>, UnpackError> {
    let mut unpacked = Vec::new();
    // One byte more than allowed tells whether there is more.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    decoder
        .take(most)
        .read_to_end(&mut unpacked)
        .map_err(|error| UnpackError::Broken { format, message: error.to_string() })?;
    if unpacked.len() > limit { Err(UnpackError::TooLarge(limit)) } else { Ok(unpacked) }
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

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let zeros = vec![0; 10 << 20];
        assert_eq!(unpack(gzip(&zeros), 1 << 20), Err(UnpackError::TooLarge(1 << 20)));
        assert_eq!(unpack(zstd(&zeros), 1 << 20), Err(UnpackError::TooLarge(1 << 20)));
    }

    #[test]
    fn a_stream_that_breaks_off_is_named() {
        for (format, whole) in [("gzip", gzip(&[7; 5000])), ("zstd", zstd(&[7; 5000]))] {
            let half = whole[..whole.len() / 2].to_vec();
            let error = unpack(half, 10_000).unwrap_err();
            assert!(matches!(error, UnpackError::Broken { format: named, .. } if named == format), "{error}");
        }
    }
}
