//! What is signed is a statement about a component.

use super::*;

fn says(name: &str, counter: u64) -> Signed {
    Signed::new(name, counter)
}

#[test]
fn a_statement_says_whose_component_it_is_and_which_counter_it_has() {
    let signer = Signer::new();
    let text = says("mycloud", 7).statement(&digest(COMPONENT));
    let raw = signer.sign(text.as_bytes());
    let base64 = STANDARD.encode(&raw) + "\n";
    for signature in [&raw[..], base64.as_bytes()] {
        let beside = [text.as_bytes(), signature].concat();
        assert_eq!(signed(&signer.trust(), COMPONENT, Some(&beside)), Ok(Some(says("mycloud", 7))));
    }
    assert_eq!(signed(&signer.trust(), COMPONENT, Some(&signer.sign(COMPONENT))), Ok(None), "it has no counter");
}

/// Whoever can write the ConfigMap of the replicas wrote a counter that no component reaches, and none was taken any more.
#[test]
fn what_others_say_of_a_counter_is_verified_as_what_lies_beside_a_component() {
    let (signer, cosign) = (Signer::new(), cosign::Cosign::new());
    let trust = Trust { keys: [signer.trust().keys, cosign.trust().keys].concat(), digests: vec![] };
    let statement = says("mycloud", 7).statement(&digest(COMPONENT));
    let bundle = serde_json::to_vec(&cosign.bundle(statement.as_bytes())).unwrap();
    let bundle = [statement.as_bytes(), &bundle].concat();
    for (trust, beside) in [(&trust, signer.vouches(COMPONENT, "mycloud", 7)), (&cosign.trust(), bundle)] {
        let good = signed(trust, COMPONENT, Some(&beside)).unwrap().unwrap();
        let good = Counted { signed: good, digest: digest(COMPONENT) };
        assert!(trust.vouches()(&good));
        let mut forged = [(); 5].map(|()| good.clone());
        forged[0].signed.counter = u64::MAX;
        "other".clone_into(&mut forged[1].signed.name);
        forged[2].digest = digest(b"another");
        forged[3].signed.signature = String::new();
        forged[4].signed.signature = STANDARD.encode(Signer::new().sign(statement.as_bytes()));
        assert!(!forged.iter().any(trust.vouches()));
        let gone = Trust { keys: vec!["/nonexistent.pem".into()], digests: vec![] };
        assert!(!gone.vouches()(&good) && !Trust::default().vouches()(&good), "nobody knows whose it is");
    }
}

/// Otherwise whoever can write the source would say which counter it has.
#[test]
fn a_statement_counts_only_as_it_was_signed_and_for_the_component_that_it_names() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let good = signer.vouches(COMPONENT, "mycloud", 7);
    let changed = |from: &str, to: &str| {
        let (text, signature) = good.split_at(good.len() - 64);
        [std::str::from_utf8(text).unwrap().replace(from, to).as_bytes(), signature].concat()
    };
    let cases = [
        ("another counter", changed("counter: 7", "counter: 8"), "fits none of the provider keys"),
        ("another name", changed("mycloud", "other"), "fits none of the provider keys"),
        ("another digest", changed(&digest(COMPONENT), &digest(b"x")), "fits none of the provider keys"),
        ("no first line", good[30..].to_vec(), "is no signature"),
        ("another format", changed("statement 1", "statement 2"), "its first line is not"),
        ("a stranger's", stranger.vouches(COMPONENT, "mycloud", 7), "fits none of the provider keys"),
        ("without a signature", good[..good.len() - 64].to_vec(), "it has 0 bytes after its statement"),
        ("half of one", good[..good.len() - 1].to_vec(), "it has 63 bytes after its statement"),
        ("of another component", signer.vouches(b"older", "mycloud", 7), "about another component (sha256:"),
    ];
    for (what, beside, part) in cases {
        let error = signed(&signer.trust(), COMPONENT, Some(&beside)).unwrap_err();
        assert!(error.contains(part), "{what}: {error}");
    }
}

/// The signature of a statement is none of a component, and the other way round.
#[test]
fn a_signature_of_one_kind_is_none_of_the_other() {
    let signer = Signer::new();
    let text = says("mycloud", 7).statement(&digest(COMPONENT));
    let of_the_component = [text.as_bytes(), &signer.sign(COMPONENT)].concat();
    let of_the_statement = signer.sign(text.as_bytes());
    for beside in [of_the_component, of_the_statement] {
        let error = signed(&signer.trust(), COMPONENT, Some(&beside)).unwrap_err();
        assert!(error.contains("fits none of the provider keys"), "{error}");
    }
}

#[test]
fn a_listed_component_has_a_counter_only_where_its_signature_is_good() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let trust = Trust { digests: vec![digest(COMPONENT)], ..signer.trust() };
    let (good, bad) = (signer.vouches(COMPONENT, "a", 7), stranger.vouches(COMPONENT, "a", 7));
    assert_eq!(signed(&trust, COMPONENT, Some(&good)), Ok(Some(says("a", 7))));
    assert_eq!(signed(&trust, COMPONENT, Some(&bad)), Ok(None));
    let unasked = Trust { keys: vec![], ..trust };
    assert_eq!(signed(&unasked, COMPONENT, Some(&good)), Ok(None), "nobody verified it");
}
