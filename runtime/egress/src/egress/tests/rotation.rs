//! Credentials that change while a login with the old ones is under way.

use std::path::Path;

use super::*;

fn write(folder: &Path, value: &str) {
    std::fs::write(folder.join("token"), value).unwrap();
}

/// A login with the credential `token`, whose answer becomes the credential `session`.
fn login() -> Request {
    let capture = Capture {
        credential: "session".to_owned(),
        source: CaptureSource::Header("x-subject".to_owned()),
        expires: None,
        ttl: None,
    };
    let token = vec![Part::Secret { credential: "token".to_owned(), encoding: Encoding::Plain }];
    Request { capture: Some(capture), headers: vec![("x-auth-token".to_owned(), token)], ..post(Effect::Read) }
}

/// A cloud in which the first login takes so long that the credential in the file is another one when it answers. It answers that one
/// with `first`, and others with a session of the credential that they carry.
fn rotating(folder: &Path, first: &'static str) -> Rig {
    write(folder, "token-of-old");
    let file = folder.to_owned();
    let answer = move |asked: &Asked| {
        let of = asked.header("x-auth-token").unwrap().rsplit('-').next().unwrap().to_owned();
        let mut status = "201 Created";
        if of == "old" {
            write(&file, "token-of-new");
            status = first;
        }
        Reply::Bytes(reply(status, &format!("x-subject: session-of-{of}\r\n"), "{}"))
    };
    let source = CredentialSource::file(folder.join("token"));
    Rig::given(Cloud::start(answer), Arc::default(), Arc::new(Alone), |_| {}, source)
}

/// Its token was used with whatever came after it, until it ended.
#[tokio::test]
async fn what_a_login_with_an_old_credential_brings_is_not_used_when_there_is_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rotating(folder.path(), "201 Created");
    let call = call();
    let error = rig.egress.send(login(), &call).await.unwrap_err();
    assert!(error.maybe_sent && error.message.contains("credentials changed"), "{error}");
    assert!(!rig.egress.available("session", &call), "the session of the old credential is in use");
    assert_eq!(rig.egress.send(login(), &call).await.unwrap().status, 201);
    let sent: Vec<Asked> = rig.cloud.take();
    let carried: Vec<_> = sent.iter().filter_map(|asked| asked.header("x-auth-token")).collect();
    assert_eq!(carried, ["token-of-old", "token-of-new"]);
    let (session, _) = rig.egress.credentials.captured().value("session").unwrap();
    assert_eq!(session.expose(), b"session-of-new");
}

/// The cloud had refused the old credential, and that was the answer for a second, then for two, though nobody had asked with the new one.
#[tokio::test]
async fn a_refused_login_with_an_old_credential_does_not_keep_the_new_one_waiting() {
    for first in ["401 Unauthorized", "400 Bad Request"] {
        let folder = tempfile::tempdir().unwrap();
        let rig = rotating(folder.path(), first);
        let call = call();
        // Whoever waits its turn meanwhile logs in with the new one.
        let (one, other) = join(rig.egress.send(login(), &call), rig.egress.send(login(), &call)).await;
        let mut statuses = [one.unwrap().status, other.unwrap().status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, first.split(' ').next().unwrap().parse().unwrap()], "{first}");
        assert!(rig.egress.available("session", &call), "{first}");
    }
}
