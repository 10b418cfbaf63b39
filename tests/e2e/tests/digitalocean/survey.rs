//! One look at many load balancers says of none what is not so, whatever fails.

use std::sync::Arc;

use ccm_cloud::{LoadBalancers as _, Protocol, Reaction, Standing, Wish as Surveyed};
use ccm_sim_digitalocean::{Act, Certificate, CertificateKind, Command, Droplet, FAULTS, Fault, Planned, Requests};

use crate::faults::{LONG, TIMES};
use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish, network, tls};

/// One as it should be, one that somebody has changed, one that somebody has deleted.
async fn rig() -> (Rig, [Wish; 3]) {
    let rig = Rig::start(&[("cluster-id", "c-1")]).await;
    for id in 1..=5 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig.cloud.put_certificate(Certificate::new("web", CertificateKind::LetsEncrypt, "www.example.com"));
    let mut wishes = [tls(), network(), Wish::new("deleted", &[(Protocol::Tcp, 80)], &[])];
    for wish in &mut wishes {
        wish.until_done(&rig, Call::Ensure, None).await;
    }
    let [_, changed, deleted] = wishes.each_ref().map(|wish| wish.id().unwrap().to_owned());
    assert!(rig.cloud.tamper(&changed, |spec| spec.droplet_ids = vec![1]));
    rig.cloud.command(Command::RemoveBalancer { id: deleted }).unwrap();
    (rig, wishes)
}

async fn survey(rig: &Rig, wishes: &[Wish; 3], planned: Option<&mut Planned>) -> Vec<Standing> {
    skip(LONG).await;
    rig.cloud.reset_counters();
    let surveyed = |wish: &Wish| Surveyed { service: wish.service.clone(), backends: vec![0, 1, 2] };
    // Those of the second one, which have no provider IDs: all droplets are looked up.
    let backends = Arc::clone(&wishes[1].backends);
    let call = rig.provider.survey(backends, wishes.iter().map(surveyed).collect());
    let standings = rig.impatient(planned, Rig::hurried(call)).await;
    assert_eq!(rig.cloud.counters().writes, 0, "a look changes nothing");
    // A call that has taken too long knows nothing of any.
    standings.unwrap_or_else(|failure| vec![Standing::Unknown(failure); wishes.len()])
}

const fn goes_by(reaction: Reaction) -> bool {
    matches!(reaction, Reaction::Retry | Reaction::Conflict | Reaction::Throttled | Reaction::Pending)
}

#[tokio::test]
async fn a_look_says_of_no_load_balancer_what_is_not_so_whatever_fails() {
    let (rig, mut wishes) = rig().await;
    let good = survey(&rig, &wishes, None).await;
    let requests = rig.requests();
    assert!(matches!(&good[..], [Standing::InStep(_), Standing::Differs(_), Standing::Missing]), "{good:#?}");
    for nth in 1..=requests {
        for &(when, act) in FAULTS {
            for times in TIMES {
                let fault = Fault { times, ..Fault::new(Requests::All, nth, when, act) };
                let mut planned = rig.cloud.plan(fault);
                let said = survey(&rig, &wishes, Some(&mut planned).filter(|_| act == Act::Hold)).await;
                rig.cloud.forget_faults();
                for (is, said) in good.iter().zip(&said) {
                    let is_so = match said {
                        Standing::Unknown(failure) => goes_by(failure.reaction),
                        // Then it is looked at closely.
                        Standing::Differs(_) if act == Act::UnknownEnum => *is != Standing::Missing,
                        said => said == is,
                    };
                    assert!(is_so, "{said:?} of {is:?}: {fault:?}");
                }
                assert_eq!(survey(&rig, &wishes, None).await, good, "after {fault:?}");
            }
        }
    }
    wishes[0].until_done(&rig, Call::Ensure, None).await;
    assert_eq!(rig.cloud.counters().writes, 0, "{:#?}", rig.cloud.exchanges());
    rig.cloud.check().unwrap();
}
