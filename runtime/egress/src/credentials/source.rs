//! Where the value of a credential comes from. Files are looked at for each use: a rotated one counts with the next request.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccm_cloud::ConfigFormat;
use parking_lot::Mutex;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::MAX_CREDENTIAL_BYTES;
use crate::config_file::{ConfigFile, MAX_CONFIG_FILE, canonical};
use crate::file_stamp::Stamp;
use crate::secret::Secret;

/// Largest file with a credential, in bytes: with a line end.
const MAX_FILE: usize = MAX_CREDENTIAL_BYTES;

/// Why a source gives no value. Never holds one.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file system's words.
    #[error("cannot read {}: {error}; check the path and who may read it", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not a file of credentials.
    #[error("{} {why}", .path.display())]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl SourceError {
    /// Whether the same file may be read at another time.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Read { error, .. } if error.kind() != std::io::ErrorKind::NotFound)
    }
}

/// What is known of an object that somebody else keeps up to date.
#[derive(Clone)]
pub enum Object {
    /// The values by their keys, all of one moment.
    Is(Arc<BTreeMap<String, Secret>>),
    /// There is no such object.
    Absent,
    /// It may have changed unseen.
    Unseen {
        /// Its values when it was seen last.
        last: Option<Arc<BTreeMap<String, Secret>>>,
        /// Why, and the way out.
        why: Arc<str>,
    },
}

impl Object {
    /// Whether these are the same values, of which the same is said.
    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Is(one), Self::Is(other)) => Arc::ptr_eq(one, other),
            (Self::Absent, Self::Absent) => true,
            (Self::Unseen { last: one, why }, Self::Unseen { last: other, why: of_other }) => {
                one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr) && why == of_other
            }
            _ => false,
        }
    }
}

/// Where a value comes from.
pub enum CredentialSource {
    /// An environment variable, read at start.
    Environment {
        /// Its name.
        variable: String,
        /// Its value.
        value: Secret,
    },
    /// The content of a file, without a line end at its end.
    File(FileValue),
    /// A key of the cloud-config.
    ConfigKey {
        /// The file.
        file: FileValue,
        /// How it is written.
        format: ConfigFormat,
        /// The parts of the key: section and key, or names and numbers.
        key: Vec<String>,
    },
    /// Something that somebody else keeps up to date: a Kubernetes Secret.
    Watched {
        /// As the operator wrote it.
        name: String,
        /// Which of the values of the object.
        key: String,
        /// The newest object: values of one object are of one moment.
        object: watch::Receiver<Object>,
        /// Whoever keeps it up to date ends with this.
        keeper: Arc<dyn Any + Send + Sync>,
    },
}

impl CredentialSource {
    /// The content of a file.
    #[must_use]
    pub fn file(path: PathBuf) -> Self {
        Self::File(FileValue::new(path, MAX_FILE))
    }

    /// A key of a configuration file, its parts between dots.
    #[must_use]
    pub fn config_key(path: PathBuf, format: ConfigFormat, key: impl Into<String>) -> Self {
        Self::config_path(path, format, key.into().split('.').map(str::to_owned).collect())
    }

    /// A key of a configuration file by its parts, which may have dots in them.
    #[must_use]
    pub fn config_path(path: PathBuf, format: ConfigFormat, key: Vec<String>) -> Self {
        Self::ConfigKey { file: FileValue::new(path, MAX_CONFIG_FILE), format, key }
    }

    /// What tells the place of the value from all others.
    pub(super) fn place(&self) -> Vec<String> {
        match self {
            Self::Environment { variable, .. } => vec!["env".to_owned(), variable.clone()],
            Self::File(file) => vec!["file".to_owned(), file.path.display().to_string()],
            Self::ConfigKey { file, format, key } => {
                let key = canonical(key, *format);
                ["key".to_owned(), file.path.display().to_string()].into_iter().chain(key).collect()
            }
            Self::Watched { name, .. } => vec!["watched".to_owned(), name.clone()],
        }
    }

    /// What tells whether it holds something else than before; `of_file` says it of a file.
    pub(super) fn mark(&self, mut of_file: impl FnMut(&PathBuf) -> Mark) -> Mark {
        match self {
            Self::Environment { .. } => Mark::Fixed,
            Self::File(file) | Self::ConfigKey { file, .. } => of_file(&file.path),
            Self::Watched { object, .. } => Mark::Object(object.borrow().clone()),
        }
    }

    /// The file that it is in, where it is in one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(file) | Self::ConfigKey { file, .. } => Some(&file.path),
            Self::Environment { .. } | Self::Watched { .. } => None,
        }
    }

    /// Why another value than the one that it gives may be there by now, with the source and the way out.
    #[must_use]
    pub fn unseen(&self) -> Option<String> {
        let Self::Watched { name, object, .. } = self else { return None };
        let Object::Unseen { why, .. } = &*object.borrow() else { return None };
        Some(format!("{name}: {why}"))
    }

    /// The value of now, as far as it is seen; none when there is none.
    ///
    /// # Errors
    ///
    /// [`SourceError`]
    pub fn read(&self) -> Result<Option<Secret>, SourceError> {
        match self {
            Self::Environment { value, .. } => Ok(Some(value.clone())),
            Self::Watched { object, key, .. } => match &*object.borrow() {
                Object::Is(values) | Object::Unseen { last: Some(values), .. } => Ok(values.get(key).cloned()),
                Object::Absent | Object::Unseen { last: None, .. } => Ok(None),
            },
            Self::File(file) => file.read(|_, bytes| Ok(Some(Secret::new(without_line_end(bytes).to_vec())))),
            Self::ConfigKey { file, format, key } => file.read(|path, bytes| {
                let unusable = |why: String| SourceError::Unusable { path: path.to_owned(), why };
                let config = ConfigFile::read(bytes, *format).map_err(|error| unusable(error.to_string()))?;
                Ok(config.and_then(|config| config.secret_at(key)))
            }),
        }
    }
}

impl CredentialSource {
    /// Why it has no value.
    pub(super) fn lack(&self) -> String {
        match self {
            Self::Watched { name, key, object, .. } => match &*object.borrow() {
                Object::Is(_) => format!("{name}: the Secret has no key {key:?}; add it, or name another key"),
                Object::Absent => format!("{name}: there is no such Secret; create it, or name another one"),
                Object::Unseen { why, .. } => format!("{name}: {why}"),
            },
            Self::ConfigKey { file, key, .. } => {
                format!("{} has no text at {}; add it", file.path.display(), key.join("."))
            }
            Self::Environment { .. } | Self::File(_) => format!("{self} has none"),
        }
    }
}

impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment { variable, .. } => write!(f, "env:{variable}"),
            Self::File(file) => write!(f, "file:{}", file.path.display()),
            Self::ConfigKey { file, key, .. } => write!(f, "{} in {}", key.join("."), file.path.display()),
            Self::Watched { name, .. } => f.write_str(name),
        }
    }
}

fn without_line_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// A value made from a file, made again when the file is another.
pub struct FileValue {
    path: PathBuf,
    most: usize,
    last: Mutex<Option<(Stamp, Option<Secret>)>>,
}

impl FileValue {
    fn new(path: PathBuf, most: usize) -> Self {
        Self { path, most, last: Mutex::default() }
    }

    fn read(
        &self,
        value: impl FnOnce(&Path, &[u8]) -> Result<Option<Secret>, SourceError>,
    ) -> Result<Option<Secret>, SourceError> {
        let path = &self.path;
        let failed = |error| SourceError::Read { path: path.clone(), error };
        // On the async worker: mounted Secrets are in memory, and a look at one takes a microsecond.
        let (stamp, settled) = Stamp::of(path).map_err(failed)?;
        if let Some((last, value)) = &*self.last.lock()
            && *last == stamp
        {
            return Ok(value.clone());
        }
        let mut file = std::fs::File::open(path).map_err(failed)?;
        let bytes = all(&mut file, self.most.saturating_add(1)).map_err(failed)?;
        if bytes.len() > self.most {
            let why = format!("has more than {} bytes", self.most);
            return Err(SourceError::Unusable { path: path.clone(), why });
        }
        let value = value(path, &bytes)?;
        *self.last.lock() = settled.then(|| (stamp, value.clone()));
        Ok(value)
    }
}

/// All that is read, but not more than `most`. The buffer does not grow: that would leave copies behind, which nobody wipes.
/// A file may have more than its length said, so there is room for what may be read, whatever that is.
pub(super) fn all(from: &mut impl Read, most: usize) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; most]);
    let mut filled = 0;
    while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
        match from.read(room) {
            Ok(0) => break,
            Ok(read) => filled = filled.saturating_add(read),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// What tells one state of a source from the next.
#[derive(Clone)]
pub(super) enum Mark {
    /// It never changes.
    Fixed,
    /// Of a file; none where there is no file.
    File(Option<Stamp>),
    /// What somebody else keeps up to date.
    Object(Object),
}

impl PartialEq for Mark {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed, Self::Fixed) => true,
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Object(one), Self::Object(other)) => one.is_as(other),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_in_pieces_is_never_copied() {
        struct Pieces(Vec<*const u8>);
        impl Read for Pieces {
            fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
                let number = self.0.len();
                self.0.push(room.as_ptr());
                if number == 1 {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
                let read = if number < 6 { room.len().min(10) } else { 0 };
                room[..read].fill(b'x');
                Ok(read)
            }
        }
        for (most, read) in [(100, 50), (50, 50), (49, 49), (0, 0)] {
            let mut pieces = Pieces(vec![]);
            let bytes = all(&mut pieces, most).unwrap();
            assert_eq!(*bytes, vec![b'x'; read]);
            assert!(pieces.0.first().is_none_or(|first| *first == bytes.as_ptr()), "another buffer");
        }
    }

    fn text(source: &CredentialSource) -> Option<String> {
        source.read().unwrap().map(|secret| String::from_utf8(secret.expose().to_vec()).unwrap())
    }

    #[test]
    fn a_rotated_file_counts_with_the_next_look_however_it_was_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let source = CredentialSource::file(path.clone());
        assert!(source.read().is_err(), "not there yet");
        std::fs::write(&path, "first-value\n").unwrap();
        assert_eq!(text(&source).as_deref(), Some("first-value"));
        // The same length, at once.
        std::fs::write(&path, "other-value\n").unwrap();
        assert_eq!(text(&source).as_deref(), Some("other-value"));
        std::fs::write(folder.path().join("new"), "third-value\r\n").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(text(&source).as_deref(), Some("third-value"));
    }

    /// As the kubelet does: `token` is a link through `..data`, which is switched by a rename.
    #[test]
    fn the_switch_of_a_mounted_secret_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, value) in [("..1", "value-one"), ("..2", "value-two")] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("token"), value).unwrap();
        }
        std::os::unix::fs::symlink("..1", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/token", at("token")).unwrap();
        let source = CredentialSource::file(at("token"));
        assert_eq!(text(&source).as_deref(), Some("value-one"));
        std::os::unix::fs::symlink("..2", at("..data_tmp")).unwrap();
        std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert_eq!(text(&source).as_deref(), Some("value-two"));
    }

    #[test]
    fn what_is_not_there_is_told_by_what_is_missing_of_it() {
        let lack = |object: Object| {
            let object = watch::channel(object).1;
            let (name, key) = ("secret:kube-system/cloud/token".to_owned(), "token".to_owned());
            CredentialSource::Watched { name, key, object, keeper: Arc::new(()) }.lack()
        };
        let no_secret = "secret:kube-system/cloud/token: there is no such Secret; create it, or name another one";
        assert_eq!(lack(Object::Absent), no_secret);
        let no_key = "secret:kube-system/cloud/token: the Secret has no key \"token\"; add it, or name another key";
        assert_eq!(lack(Object::Is(Arc::default())), no_key);
        let file = tempfile::NamedTempFile::new().unwrap();
        let source = CredentialSource::config_key(file.path().to_owned(), ConfigFormat::Yaml, "auth.password");
        assert_eq!(text(&source), None);
        assert_eq!(source.lack(), format!("{} has no text at auth.password; add it", file.path().display()));
    }

    #[test]
    fn the_parts_of_a_key_may_have_dots_in_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "clouds:\n  my.cloud:\n    password: value-one\n").unwrap();
        let key = ["clouds", "my.cloud", "password"].map(str::to_owned).to_vec();
        let source = CredentialSource::config_path(file.path().to_owned(), ConfigFormat::Yaml, key);
        assert_eq!(text(&source).as_deref(), Some("value-one"));
        assert!(source.to_string().starts_with("clouds.my.cloud.password in /"), "{source}");
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_without_reading_it_all() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b'x'; 65 << 10]).unwrap();
        let error = CredentialSource::file(file.path().to_owned()).read().err().unwrap();
        assert!(error.to_string().contains("has more than 65536 bytes"), "{error}");
    }
}
