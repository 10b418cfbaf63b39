use ccm_cloud::Source;

use super::*;

fn used(endpoint: &str, place: Place, path: Option<&str>) -> CredentialUse {
    CredentialUse { endpoint: endpoint.into(), place, path: path.map(Into::into) }
}

fn credential(name: &str, uses: Vec<CredentialUse>) -> Credential {
    Credential { name: name.into(), purpose: String::new(), required: false, value: Source::default(), uses }
}

fn declared() -> [Credential; 4] {
    [
        credential("token", vec![used("api", Place::Header("Authorization".into()), None)]),
        credential("password", vec![used("identity", Place::Body, Some("/v3/auth/tokens"))]),
        credential("anywhere", vec![used("identity", Place::Body, None)]),
        credential(
            "key",
            vec![used("api", Place::Signing, None), used("api", Place::Query("signature".into()), Some("/client/api"))],
        ),
    ]
}

fn granting(grants: &[(&str, &[&str])]) -> Uses {
    let parsed = |texts: &[&str]| texts.iter().map(|text| text.parse::<UseGrant>().unwrap()).collect();
    Uses::new(&declared(), grants.iter().map(|(name, texts)| ((*name).to_owned(), parsed(texts))).collect())
}

/// All that is declared is granted.
fn uses() -> Uses {
    granting(&[
        ("token", &["api:header:authorization"]),
        ("password", &["identity:body:/v3/auth/tokens"]),
        ("key", &["api:signing", "api:query:signature:/client/api"]),
    ])
}

#[test]
fn without_a_grant_a_secret_stands_in_one_header_of_one_endpoint_and_the_refusal_names_the_grants() {
    let uses = granting(&[]);
    uses.check_secret("token", spot("api", "/x", At::Header("Authorization"))).unwrap();
    let refused = [
        uses.check_secret("password", spot("identity", "/v3/auth/tokens", At::Body)),
        uses.check_signature("key", spot("api", "/client/api", At::Query("signature"))),
        uses.check_signed("password", "identity"),
    ];
    let flags = [
        "--credential-use=password=identity:body:/v3/auth/tokens",
        "--credential-use=key=api:signing --credential-use=key=api:query:signature:/client/api",
        "--credential-use=password=identity:body:/v3/auth/tokens",
    ];
    for (refused, flags) in refused.into_iter().zip(flags) {
        let error = refused.unwrap_err();
        assert!(matches!(&error, CredentialRefusal::Denied(_)) && error.to_string().contains(flags), "{error}");
    }
    assert!(["token", "anywhere", "nobody"].iter().all(|name| uses.missing(name).is_empty()));
}

/// A login goes to one of two paths, and the flag that its refusal named was for that one only: then the other one was missing.
#[test]
fn the_flag_for_a_place_in_a_body_is_all_that_its_credential_needs() {
    let paths = ["/v3/auth/tokens", "/auth/tokens"];
    let declared = credential("password", paths.map(|path| used("identity", Place::Body, Some(path))).into());
    let granting = |flags: &[String]| {
        let parse = |flag: &String| flag.strip_prefix("--credential-use=password=").unwrap().parse().unwrap();
        let granted = UseGrants::from([("password".to_owned(), flags.iter().map(parse).collect())]);
        Uses::new(std::slice::from_ref(&declared), granted)
    };
    let bodies = granting(&[]).missing("password");
    for at in [Within::Json("/auth/password".to_owned()), Within::Form("pass:word".to_owned())] {
        let error = granting(&bodies).check_body("password", "identity", paths[1], &at).unwrap_err().to_string();
        let flag = error.split(" the operator gives ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let uses = granting(std::slice::from_ref(&flag));
        uses.check_body("password", "identity", paths[1], &at).unwrap();
        let is_whole = matches!(at, Within::Json(_));
        assert_eq!(uses.missing("password").is_empty(), is_whole, "{flag}: a field with a colon needs its path");
    }
}

#[test]
fn a_grant_of_one_use_grants_no_other_one() {
    let uses = granting(&[("key", &["api:signing"]), ("token", &["api:header:x-other"])]);
    assert!(uses.check_signature("key", spot("api", "/client/api", At::Query("signature"))).is_err());
    assert!(uses.check_secret("token", spot("api", "/x", At::Header("authorization"))).is_err());
    // A path less is more.
    let uses = granting(&[("key", &["api:signing:/client/api", "api:query:signature"])]);
    assert!(uses.check_signature("key", spot("api", "/client/api", At::Query("signature"))).is_err());
}

/// With another name for it, the password went to every endpoint, and no grant was asked for.
#[test]
fn two_names_of_one_value_are_one_credential() {
    let in_header = |endpoint: &str| vec![used(endpoint, Place::Header("authorization".into()), None)];
    let declared = [
        credential("password", in_header("identity")),
        credential("again", in_header("compute")),
        credential("token", in_header("compute")),
    ];
    let missing = |granted: &[(&str, &str)]| {
        let granted = granted.iter().map(|(name, text)| ((*name).to_owned(), vec![text.parse().unwrap()]));
        let uses = Uses::new(&declared, granted.collect()).valued(&[("password", 1), ("again", 1), ("token", 2)]);
        ["password", "again", "token"].map(|name| uses.missing(name).join(" "))
    };
    let password = ("password", "identity:header:authorization");
    let again = "--credential-use=again=compute:header:authorization";
    assert_eq!(missing(&[]), ["--credential-use=password=identity:header:authorization", again, ""]);
    assert_eq!(missing(&[password]), ["", again, ""]);
    assert_eq!(missing(&[password, ("again", "compute:header:authorization")]), ["", "", ""]);
}

fn spot<'a>(endpoint: &'a str, path: &'a str, place: At<'a>) -> Spot<'a> {
    Spot { endpoint, path, place }
}

#[test]
fn a_secret_stands_only_where_it_is_declared() {
    let cases = [
        ("token", spot("api", "/x", At::Header("authorization")), true),
        ("token", spot("api", "/x", At::Header("x-auth")), false),
        ("token", spot("api", "/x", At::Query("authorization")), false),
        ("token", spot("api", "/x", At::Body), false),
        ("token", spot("other", "/x", At::Header("authorization")), false),
        ("password", spot("identity", "/v3/auth/tokens", At::Body), true),
        ("password", spot("identity", "/v3/users", At::Body), false),
        ("anywhere", spot("identity", "/v3/users", At::Body), false),
        ("key", spot("api", "/client/api", At::Query("signature")), false),
        ("nobody", spot("api", "/x", At::Body), false),
    ];
    for (name, spot, allowed) in cases {
        assert_eq!(uses().check_secret(name, spot).is_ok(), allowed, "{name} {spot:?}");
    }
}

/// A login at two paths needed each grant twice.
#[test]
fn a_place_in_a_body_is_granted_at_every_path_that_the_component_declares_and_at_no_other() {
    let paths = ["/v3/auth/tokens", "/auth/tokens"];
    let declared = [credential("password", paths.map(|path| used("identity", Place::Body, Some(path))).to_vec())];
    for (grant, within) in [
        ("identity:body-json:/auth/password", Within::Json("/auth/password".into())),
        ("identity:body-form:password", Within::Form("password".into())),
    ] {
        let uses = Uses::new(&declared, [("password".to_owned(), vec![grant.parse().unwrap()])].into());
        assert!(uses.missing("password").is_empty());
        for path in paths {
            uses.check_secret("password", spot("identity", path, At::Body)).unwrap();
            uses.check_body("password", "identity", path, &within).unwrap();
            for other in [Within::Json("/auth/comment".into()), Within::Form("comment".into()), Within::Other] {
                assert!(uses.check_body("password", "identity", path, &other).is_err(), "{other:?}");
            }
            assert!(!uses.shows_answer("password", "identity", path));
        }
        uses.check_secret("password", spot("identity", "/v3/users", At::Body)).unwrap_err();
        uses.check_body("password", "compute", "/v3/auth/tokens", &within).unwrap_err();
    }
}

#[test]
fn a_signature_stands_only_where_its_key_is_declared() {
    let cases = [
        ("key", spot("api", "/client/api", At::Query("signature")), true),
        ("key", spot("api", "/elsewhere", At::Query("signature")), false),
        ("key", spot("api", "/client/api", At::Query("Signature")), false),
        ("key", spot("api", "/client/api", At::Header("signature")), false),
        ("key", spot("other", "/client/api", At::Query("signature")), false),
        ("token", spot("api", "/x", At::Header("authorization")), false),
    ];
    for (name, spot, allowed) in cases {
        assert_eq!(uses().check_signature(name, spot).is_ok(), allowed, "{name} {spot:?}");
    }
    assert!(uses().check_signed("token", "api").is_ok());
    assert!(uses().check_signed("password", "api").is_err());
}
