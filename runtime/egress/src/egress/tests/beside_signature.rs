//! A credential in a header stands alone, whatever else the host fills in there.

use super::walls::{bytes, header, open};
use super::*;

/// A signature in the same header once lifted the rule: what the component wrote before the credential said who asks.
#[tokio::test]
async fn a_signature_beside_a_credential_in_one_header_opens_nothing() {
    let cloud = Cloud::start(|_| ok("{}"));
    let uses = vec![("token", vec![header("authorization")]), ("key", vec![Place::Signing, header("authorization")])];
    let granted =
        [("token", &["api:header:authorization"][..]), ("key", &["api:signing+any", "api:header:authorization"][..])];
    let egress = open(&cloud, uses, &granted).unwrap();
    let token = || Part::Secret { credential: "token".to_owned(), encoding: Encoding::Plain };
    let signature = || Part::Signature {
        key: "key".to_owned(),
        algorithm: Algorithm::HmacSha256,
        data: vec![SignedPart::Bytes(b"anything".to_vec())],
        encoding: Encoding::Hex,
    };
    let ask = async |parts: Vec<Part>| {
        let headers = vec![("authorization".to_owned(), parts)];
        egress.send(Request { headers, ..post(Effect::Read) }, &call()).await
    };
    for fine in [vec![bytes("Bearer "), token()], vec![bytes("Signature keyId=\"mine\", signature="), signature()]] {
        assert_eq!(ask(fine.clone()).await.unwrap().status, 200, "{fine:?}");
    }
    cloud.take();
    for beside in [
        vec![bytes("Bearer login-of-the-author, "), token(), bytes(" "), signature()],
        vec![bytes("Bearer login-of-the-author, "), signature(), bytes(" "), token()],
        vec![bytes("Bearer "), token(), bytes(", login-of-the-author "), signature()],
        vec![signature(), bytes(" login-of-the-author "), token()],
    ] {
        let error = ask(beside.clone()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{beside:?}: {error}");
        assert!(error.message.contains("has something else beside it than a scheme"), "{error}");
    }
    assert!(cloud.take().is_empty(), "nothing was sent");
}
