//! `wasm-ccm explain`: from an object to the reason, in one command. Reads, and writes nothing.
//!
//! | module | does |
//! |---|---|
//! | [`target`] | which object is asked about |
//! | [`page`] | what a running host says of it, on its health port |
//! | [`leader`] | finds the leader, and asks it |
//! | [`cluster`] | what the object and its Events say, for whoever leads or not |
//! | [`reason`] | what follows: what is wrong, when the next try is, what to do |
//! | [`advice`] | what to do about each reaction |
//! | [`text`] | for people |
//!
//! What nobody says is told to be unknown, with what was tried.

mod advice;
mod cluster;
mod leader;
mod page;
mod reason;
mod target;
mod text;

use anyhow::{Result, bail};
use kube::Client;

pub(crate) use page::{Explained, asked};

use crate::cli::{ExplainArgs, Output};
use crate::{exit, output};
use cluster::{Cluster, Object};
use leader::Asked;
use reason::{Explanation, Facts, Verdict};
use target::Target;

/// Says why an object is as it is.
///
/// # Errors
///
/// There is no such object, or its name cannot be one.
pub(crate) fn explain(args: &ExplainArgs) -> Result<exit::Verdict> {
    let target = Target::parse(&args.kind, &args.name).map_err(anyhow::Error::msg)?;
    let address = args.address.as_deref().map(leader::address).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let explanation = runtime.block_on(Box::pin(explained(args, target, address)))?;
    let told = match args.output {
        Output::Json => serde_json::to_string_pretty(&explanation)?,
        Output::Text => text::of(&explanation),
    };
    output::print(&told)?;
    Ok(match explanation.verdict {
        Verdict::Fine => exit::Verdict::Good,
        Verdict::Wrong => exit::Verdict::Wrong,
        Verdict::Unknown => exit::Verdict::Unjudged,
    })
}

async fn explained(args: &ExplainArgs, target: Target, address: Option<http::Uri>) -> Result<Explanation> {
    let mut tried = vec![];
    let cluster = match connected(args).await {
        Ok(client) => Some(Cluster::new(client)),
        Err(error) if address.is_some() => {
            tried.push(format!("the API server: {}", crate::one_line(&error)));
            None
        }
        Err(error) => return Err(error),
    };
    let asked = match (&address, &cluster) {
        (Some(address), cluster) => {
            let cluster =
                cluster.as_ref().map(|cluster| (&cluster.client, args.leader_elect_resource_namespace.as_str()));
            leader::at(address, cluster, &target).await
        }
        (None, Some(cluster)) => {
            let (namespace, lease) = (&args.leader_elect_resource_namespace, &args.leader_elect_resource_name);
            leader::found(&cluster.client, namespace, lease, &target).await
        }
        (None, None) => Asked::default(),
    };
    tried.extend(asked.tried);
    let (object, events) = match &cluster {
        Some(cluster) => {
            let (object, events) = tokio::join!(cluster.object(&target), cluster.events(&target));
            let object = object.unwrap_or_else(|why| {
                tried.push(why);
                Object::Unread
            });
            let events = events.unwrap_or_else(|why| {
                tried.push(why);
                vec![]
            });
            (object, events)
        }
        None => (Object::Unread, vec![]),
    };
    let knows = asked.answer.as_ref().is_some_and(|answer| {
        let services = answer.service.as_ref().and_then(|service| service.uid.as_ref());
        services.or_else(|| answer.node.as_ref().and_then(|node| node.uid.as_ref())).is_some()
    });
    // A Service that went by force still has a load balancer, which the leader takes away.
    if matches!(object, Object::Missing) && !knows {
        bail!("there is no {target}: look with kubectl get {}", target.listing());
    }
    Ok(reason::explain(Facts { target, object, answer: asked.answer, asked: asked.place, events, tried }))
}

async fn connected(args: &ExplainArgs) -> Result<Client> {
    let config = ccm_apiserver::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
    Ok(Client::try_from(config)?)
}
