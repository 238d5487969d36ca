//! The services that this process has claimed on its host, so that no other process has the same
//! port.

use std::sync::{Mutex, MutexGuard};

use fairway_rdma::{Provider, ProviderError, ServiceClaim, ServiceReservation};

use fairway_verbs::guard::{Errno, Result, lock};

/// A service that other processes of the host cannot claim.
struct Claim {
    /// Unlike the numbers of all other claims of this process and its ancestors.
    number: u64,
    /// The process that has claimed the service. A child inherits the table, and not the claims.
    process: u32,
    service: u64,
    /// Number of [`Use`]s.
    users: usize,
    hold: Hold,
}

/// What keeps the claim until it is dropped.
enum Hold {
    /// No id listens yet.
    Reservation(ServiceReservation),
    /// Datagrams for the service are routed to this process.
    Route { _claim: Box<dyn ServiceClaim> },
}

struct Claims {
    claims: Vec<Claim>,
    number_next: u64,
}

static CLAIMS: Mutex<Claims> = Mutex::new(Claims { claims: Vec::new(), number_next: 1 });

/// The claims of this process. Those that it inherited belong to its parent.
fn own() -> MutexGuard<'static, Claims> {
    let mut claims = lock(&CLAIMS);
    let process = std::process::id();
    claims.claims.retain(|claim| claim.process == process);
    claims
}

/// Gives up the claims of this process's parent, which the parent keeps until it ends.
pub(super) fn disown() {
    drop(own());
}

/// Keeps a service claimed until it is dropped.
#[derive(Debug)]
pub(super) struct Use {
    number: u64,
    service: u64,
}

impl Use {
    /// The service's number.
    pub(super) fn service(&self) -> u64 {
        self.service
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut claims = own();
        if let Some(claim) = claims.claims.iter_mut().find(|claim| claim.number == self.number) {
            claim.users -= 1;
        }
        claims.claims.retain(|claim| claim.users > 0);
    }
}

impl Claims {
    fn position(&self, service: u64) -> Option<usize> {
        self.claims.iter().position(|claim| claim.service == service)
    }

    /// Adds a new claim, or returns the claim that was removed from the table to it.
    fn add(&mut self, service: u64, before: Option<(u64, usize)>, hold: Hold) -> Use {
        let (number, users) = before.unwrap_or((self.number_next, 0));
        self.number_next = self.number_next.max(number + 1);
        let (process, users) = (std::process::id(), users + 1);
        self.claims.push(Claim { number, process, service, users, hold });
        Use { number, service }
    }
}

fn failed(error: ProviderError) -> Errno {
    match error {
        ProviderError::Busy => Errno(libc::EADDRINUSE),
        other => Errno::from(other),
    }
}

/// Reserves a service. Fails with `EADDRINUSE` if another process has claimed it.
pub(super) fn reserve(service: u64) -> Result<Use> {
    let mut claims = own();
    if let Some(at) = claims.position(service) {
        let claim = &mut claims.claims[at];
        claim.users += 1;
        return Ok(Use { number: claim.number, service });
    }
    let reservation = ServiceReservation::new(service).map_err(failed)?;
    Ok(claims.add(service, None, Hold::Reservation(reservation)))
}

/// Claims a service, whose datagrams the provider receives from now on. Fails with `EADDRINUSE` if
/// another process has claimed it.
pub(super) fn claim(provider: &dyn Provider, service: u64) -> Result<Use> {
    let mut claims = own();
    let (before, reservation) = match claims.position(service) {
        None => (None, ServiceReservation::new(service).map_err(failed)?),
        Some(at) => {
            let Claim { number, users, hold, .. } = claims.claims.swap_remove(at);
            match hold {
                Hold::Reservation(reservation) => (Some((number, users)), reservation),
                hold => return Ok(claims.add(service, Some((number, users)), hold)),
            }
        }
    };
    let claim = provider.claim_service(reservation).map_err(failed)?;
    Ok(claims.add(service, before, Hold::Route { _claim: claim }))
}
