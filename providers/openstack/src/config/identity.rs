//! `[Global]`: who logs in, and to what. Secrets stay with the host.

use ccm_sdk::config::Section;

/// What is named by its ID or by its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
}

impl Named {
    pub(crate) fn new(id: Option<String>, name: Option<String>) -> Self {
        Self { id: super::filled(id), name: super::filled(name) }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.id.is_none() && self.name.is_none()
    }

    /// Each of both from the other one where there is none.
    fn complete(&mut self, other: Self) {
        self.id = self.id.take().or(other.id);
        self.name = self.name.take().or(other.name);
    }

    /// This one, or else the other one.
    pub(crate) fn or<'n>(&'n self, other: &'n Self) -> &'n Self {
        if self.is_none() { other } else { self }
    }
}

/// Who logs in, and to what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: Named,
    pub(crate) project: Named,
    /// Of user and project that have none of their own; the scope where there is no project.
    pub(crate) domain: Named,
    pub(crate) user_domain: Named,
    pub(crate) project_domain: Named,
    /// Its ID is a credential.
    pub(crate) application_credential_name: Option<String>,
    pub(crate) trust: Option<String>,
    /// Who uses the trust; none: the user.
    pub(crate) trustee: Option<String>,
    /// All of the cloud is the scope.
    pub(crate) system: bool,
}

impl Identity {
    pub(super) fn complete(&mut self, other: Self) {
        self.user.complete(other.user);
        self.project.complete(other.project);
        self.domain.complete(other.domain);
        self.user_domain.complete(other.user_domain);
        self.project_domain.complete(other.project_domain);
        self.application_credential_name =
            self.application_credential_name.take().or(other.application_credential_name);
        self.trust = self.trust.take().or(other.trust);
        self.trustee = self.trustee.take().or(other.trustee);
        self.system |= other.system;
    }

    /// The domain of user and project, by its ID, where nothing is said of theirs.
    pub(super) fn be_in(&mut self, domain: Option<&str>) {
        if self.domain.is_none() {
            for own in [&mut self.user_domain, &mut self.project_domain].into_iter().filter(|own| own.is_none()) {
                own.id = domain.map(str::to_owned);
            }
        }
    }
}

pub(super) fn read(section: &mut Section<'_>) -> Identity {
    // Credentials: the host knows their values.
    for key in SECRETS {
        section.text(key);
    }
    let named = |section: &mut Section<'_>, id, name| Named::new(section.text(id), section.text(name));
    Identity {
        user: named(section, "user-id", "username"),
        project: named(section, "tenant-id", "tenant-name"),
        domain: named(section, "domain-id", "domain-name"),
        user_domain: named(section, "user-domain-id", "user-domain-name"),
        project_domain: named(section, "tenant-domain-id", "tenant-domain-name"),
        application_credential_name: super::filled(section.text("application-credential-name")),
        trust: super::filled(section.text("trust-id")),
        trustee: super::filled(section.text("trustee-id")),
        system: false,
    }
}

/// Keys of credentials.
pub(super) const SECRETS: [&str; 5] =
    ["password", "token", "application-credential-id", "application-credential-secret", "trustee-password"];
