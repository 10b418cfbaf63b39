//! The contract's `load-balancers`, `load-balancer-survey` and `load-balancer-orphan`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ccm_cloud::{
    Backend, CallFuture, Descriptor, Failure, Ingress, LoadBalancers, Mark, Outcome, Problem, Reaction, Service,
    Standing, Wish,
};
use ccm_egress::{Class, FailedRequests};
use wasmtime::Store;

use crate::answer::{self, IngressRule, OutcomeRules, Read, unless_failed};
use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::load_balancers;
use crate::call::{CallState, Selected, ServiceId, Subject, Work, call};
use crate::leaving::Leaving;
use crate::provider::Code;
use crate::tally::VALIDATE;
use crate::{CallError, Provider, convert};

const DELETE: &str = "load-balancers.ensure-deleted";

/// A call that may change the cloud.
fn writing(service: &Service) -> Subject {
    Subject { services: vec![service.into()], ..Subject::writing() }
}

/// A call that changes nothing, for a Service that somebody waits for.
fn looking(service: &Service) -> Subject {
    Subject { services: vec![service.into()], ..Subject::reading(Class::Initialise) }
}

/// With the request to the cloud behind its failure.
fn explained(outcome: Outcome, failed: &FailedRequests) -> Outcome {
    Outcome { failure: outcome.failure.map(|failure| failed.of_whole(failure)), ..outcome }
}

/// A call of an interface that the component does not have.
pub(crate) fn not_exported(provider: &Descriptor, interface: &str) -> Failure {
    Failure::new(Reaction::Unsupported, format!("the provider {} does not export {interface}", provider.name))
}

impl Provider {
    fn balancers(&self, code: &Code) -> Result<Arc<load_balancers::GuestIndices>, Failure> {
        let exports = code.optional.load_balancers.as_ref();
        exports.cloned().ok_or_else(|| not_exported(&self.descriptor, "load-balancers"))
    }

    /// Asks something about one Service that changes nothing. Also returns which requests to the cloud failed.
    async fn ask<R: Send + Leaving + 'static, T>(
        &self,
        function: &'static str,
        service: Service,
        work: Ask<R>,
        read: impl FnOnce(R) -> Read<T> + Send,
    ) -> (Result<T, Failure>, FailedRequests) {
        let code = self.code();
        let exports = match self.balancers(&code) {
            Ok(exports) => exports,
            Err(failure) => return (Err(failure), FailedRequests::default()),
        };
        let subject = looking(&service);
        let failed = subject.failed.clone();
        let service = convert::service(service, &self.entering());
        let answer = call(
            &self.settings,
            &code.pre,
            function,
            subject,
            move |store, instance| {
                Box::pin(async move {
                    let exports = exports.load(&mut *store, instance)?;
                    work(exports, store, service).await
                })
            },
            read,
        );
        (answer.await.map_err(self.no_answer(function)), failed)
    }

    fn no_answer(&self, function: &'static str) -> impl FnOnce(CallError) -> Failure {
        move |error| error.into_failure(function, &self.descriptor.name)
    }

    fn rules(&self, ingress: IngressRule) -> OutcomeRules<'_> {
        let annotation_bytes = self.settings.limits.annotation_bytes;
        OutcomeRules { declared: &self.descriptor.annotations, annotation_bytes, ingress }
    }
}

/// A question about one Service.
type Ask<R> = for<'a> fn(load_balancers::Guest, &'a mut Store<CallState>, types::Service) -> Work<'a, R>;

/// How much of a load balancer is brought to what its Service asks for.
#[derive(Clone, Copy)]
enum Extent {
    Everything,
    Backends,
}

impl Provider {
    /// Whether a Node is a machine of another provider of the same scheme, in another region or account: no load balancer of this one
    /// reaches it.
    fn leaves(&self, backend: &Backend) -> bool {
        backend.provider_id.as_deref().is_some_and(|id| self.descriptor.leaves(id))
    }

    async fn bring(&self, extent: Extent, class: Class, service: Service, backends: Arc<[Backend]>) -> Outcome {
        let function = match extent {
            Extent::Everything => "load-balancers.ensure",
            Extent::Backends => "load-balancers.update-backends",
        };
        let code = self.code();
        let exports = match self.balancers(&code) {
            Ok(exports) => exports,
            Err(failure) => return Outcome::failed(failure),
        };
        let selected = Selected::default();
        let subject = Subject { class, selected: Some(selected.clone()), ..writing(&service) };
        let failed = subject.failed.clone();
        let entering = self.entering();
        let own = backends.iter().filter(|backend| !self.leaves(backend));
        let (service, backends) = (convert::service(service, &entering), convert::backends(own));
        let answer = call(
            &self.settings,
            &code.pre,
            function,
            subject,
            move |store, instance| {
                Box::pin(async move {
                    let exports = exports.load(&mut *store, instance)?;
                    match extent {
                        Extent::Everything => exports.call_ensure(store, &service, &backends).await,
                        Extent::Backends => exports.call_update_backends(store, &service, &backends).await,
                    }
                })
            },
            |given| answer::outcome(given, self.rules(IngressRule::Needed)),
        );
        let outcome = match answer.await {
            Ok(outcome) => Outcome { selected: selected.take(), ..outcome },
            Err(error) => Outcome::failed(self.no_answer(function)(error)),
        };
        explained(outcome, &failed)
    }

    async fn take_away(&self, service: Service) -> Outcome {
        let code = self.code();
        let exports = match self.balancers(&code) {
            Ok(exports) => exports,
            Err(failure) => return Outcome::failed(failure),
        };
        let subject = writing(&service);
        let failed = subject.failed.clone();
        let entering = self.entering();
        let service = convert::service(service, &entering);
        let answer = call(
            &self.settings,
            &code.pre,
            DELETE,
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_ensure_deleted(store, &service).await })
            },
            |given| answer::outcome(given, self.rules(IngressRule::Gone)),
        );
        let outcome = answer.await.unwrap_or_else(|error| Outcome::failed(self.no_answer(DELETE)(error)));
        explained(outcome, &failed)
    }
}

impl LoadBalancers for Provider {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    fn configuration(&self) -> String {
        self.configuration.clone()
    }

    fn name(&self, service: Service) -> CallFuture<'_, Result<String, Failure>> {
        Box::pin(async move {
            let work: Ask<_> =
                |exports, store, service| Box::pin(async move { exports.call_name(store, &service).await });
            let (answer, failed) =
                self.ask("load-balancers.name", service, work, |name: String| Ok(answer::name(&name))).await;
            answer.map_err(|failure| failed.of_whole(failure))
        })
    }

    fn locks(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            let work: Ask<_> =
                |exports, store, service| Box::pin(async move { exports.call_locks(store, &service).await });
            let (answer, failed) = self.ask("load-balancers.locks", service, work, answer::locks).await;
            answer.map_err(|failure| failed.of_whole(failure))
        })
    }

    fn get(&self, service: Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>> {
        Box::pin(async move {
            let work: Ask<Result<Option<Vec<types::Ingress>>, _>> =
                |exports, store, service| Box::pin(async move { exports.call_get(store, &service).await });
            let read = unless_failed(|found: Option<_>| found.map(answer::ingress).transpose());
            let (answer, failed) = self.ask("load-balancers.get", service, work, read).await;
            answer.flatten().map_err(|failure| failed.of_whole(failure))
        })
    }

    fn get_mark(&self, service: Service) -> CallFuture<'_, Result<Option<Mark>, Failure>> {
        Box::pin(async move {
            let work: Ask<Result<Option<load_balancers::Mark>, _>> =
                |exports, store, service| Box::pin(async move { exports.call_get_mark(store, &service).await });
            let read = unless_failed(|mark: Option<_>| mark.map(answer::mark).transpose());
            let (answer, failed) = self.ask("load-balancers.get-mark", service, work, read).await;
            answer.flatten().map_err(|failure| failed.of_whole(failure))
        })
    }

    fn ensure(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(self.bring(Extent::Everything, Class::Write, service, backends))
    }

    fn ensure_unhurried(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(self.bring(Extent::Everything, Class::Refresh, service, backends))
    }

    fn update_backends(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(self.bring(Extent::Backends, Class::Write, service, backends))
    }

    fn delete(&self, service: Service) -> CallFuture<'_, Outcome> {
        Box::pin(self.take_away(service))
    }

    fn orphan(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        const FUNCTION: &str = "load-balancer-orphan.orphan";
        Box::pin(async move {
            let code = self.code();
            let exports = code.optional.load_balancer_orphan.clone();
            let exports = exports.ok_or_else(|| not_exported(&self.descriptor, "load-balancer-orphan"))?;
            let subject = writing(&service);
            let failed = subject.failed.clone();
            let service = convert::service(service, &self.entering());
            let answer = call(
                &self.settings,
                &code.pre,
                FUNCTION,
                subject,
                move |store, instance| {
                    Box::pin(async move { exports.load(&mut *store, instance)?.call_orphan(store, &service).await })
                },
                unless_failed(|told| Ok(answer::sentences(told))),
            );
            answer.await.map_err(self.no_answer(FUNCTION)).flatten().map_err(|failure| failed.of_whole(failure))
        })
    }

    fn validate(
        &self,
        service: Service,
        before: Option<Service>,
        online: bool,
    ) -> CallFuture<'_, Result<Vec<Problem>, Failure>> {
        Box::pin(async move {
            let code = self.code();
            let exports = self.balancers(&code)?;
            let subject = Subject { judges: online, ..looking(&service) };
            let entering = self.entering();
            let service = convert::service(service, &entering);
            let before = before.map(|before| convert::service(before, &entering));
            let answer = call(
                &self.settings,
                &code.pre,
                VALIDATE,
                subject,
                move |store, instance| {
                    Box::pin(async move {
                        let exports = exports.load(&mut *store, instance)?;
                        exports.call_validate(store, &service, before.as_ref(), online).await
                    })
                },
                unless_failed(|problems| Ok(answer::problems(problems))),
            );
            answer.await.map_err(self.no_answer(VALIDATE))?
        })
    }

    fn selects_nodes(&self) -> bool {
        self.settings.selects_nodes.load(Ordering::Relaxed)
    }

    fn surveys(&self) -> bool {
        self.code().optional.load_balancer_survey.is_some()
    }

    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>> {
        const FUNCTION: &str = "load-balancer-survey.survey";
        Box::pin(async move {
            let code = self.code();
            let exports = code.optional.load_balancer_survey.clone();
            let exports = exports.ok_or_else(|| not_exported(&self.descriptor, "load-balancer-survey"))?;
            let services: Vec<ServiceId> = wishes.iter().map(|wish| (&wish.service).into()).collect();
            // Nobody waits for it.
            let subject = Subject { services, ..Subject::reading(Class::Refresh) };
            let asked = wishes.len();
            let entering = self.entering();
            // Wishes count the backends as they stand in the list.
            let is_own = |index: &u32| {
                let backend = usize::try_from(*index).ok().and_then(|index| backends.get(index));
                backend.is_none_or(|backend| !self.leaves(backend))
            };
            let own = |mut wish: Wish| {
                wish.backends.retain(is_own);
                convert::wish(wish, &entering)
            };
            let wishes: Vec<_> = wishes.into_iter().map(own).collect();
            let backends = convert::backends(backends.iter());
            let answer = call(
                &self.settings,
                &code.pre,
                FUNCTION,
                subject,
                move |store, instance| {
                    Box::pin(async move {
                        exports.load(&mut *store, instance)?.call_survey(store, &backends, &wishes).await
                    })
                },
                unless_failed(|given| answer::standings(given, asked, FUNCTION, &self.descriptor.name)),
            );
            answer.await.map_err(self.no_answer(FUNCTION))?
        })
    }
}
