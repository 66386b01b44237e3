//! The examples of the guide in `docs/`, which are compiled and run.

#[doc = include_str!("../../docs/first-lock.md")]
struct FirstLock;

#[doc = include_str!("../../docs/locks-you-can-trust.md")]
struct LocksYouCanTrust;

#[doc = include_str!("../../docs/migrating-from-curator.md")]
struct MigratingFromCurator;

#[doc = include_str!("../../docs/beside-locks.md")]
struct BesideLocks;

#[doc = include_str!("../../docs/running-it.md")]
struct RunningIt;

#[doc = include_str!("../../docs/testing-your-service.md")]
struct TestingYourService;

#[doc = include_str!("../../docs/secured-ensembles.md")]
struct SecuredEnsembles;
