"""Every limit of Stanchion, in one place, with its reason; relations between limits are asserted at import.

Settings (``actors.settings``) may tighten some of them; nothing else names a number of its own.
"""

from __future__ import annotations

from typing import Final

# Ownership
SHARD_COUNT: Final = 256
"""The last byte of every id: the unit of ownership and of movement."""

# Liveness of processes
HOST_PING_SECONDS: Final = 0.25
HOST_SILENCE_SECONDS: Final = 1.0
"""A shard host that leaves a ping unanswered for this long counts as dead. A wrong guess costs a takeover,
never money."""
HOST_LOOK_SECONDS: Final = 0.05
"""Interval between looks at the kernel's state of a process of the same machine."""
ROLE_PING_SECONDS: Final = 0.5
ROLE_SILENCE_SECONDS: Final = 2.0
"""The same for every other process: none of them takes over the work of another, so a wrong guess costs its
users a restart."""
ROLE_LOOK_SECONDS: Final = 0.1
STANDSTILL_LOOKS: Final = 2
"""Looks in a row that must find a process stopped or gone before it counts as lost."""
PULSE_LATE_SECONDS: Final = 0.25
"""A watcher that notices a silence this much too late had no processor time itself, and pings again."""
ROLE_REPLACED_SECONDS: Final = 5.0
"""Time from the freeze of a process to its successor; what is left after its detection is for the start of a
Python process."""
ROLE_PATIENCE_SECONDS: Final = 60.0
"""A process that is killed for silence again within this time is allowed twice the silence, so that a machine
with too little processor time does not spend it on restarts."""
ROLE_PATIENCE_DOUBLINGS_MAX: Final = 3
RAY_LOOK_SECONDS: Final = 0.25
"""Interval between looks at the servers of a local Ray."""
READY_SECONDS: Final = 1.0
"""Time that each part of the installation has to answer a readiness check; all are asked at once."""
ROLE_START_SECONDS: Final = 60.0
"""Time that a process has to serve after its start, before it is killed and started again."""
ROLE_STOP_SECONDS: Final = 15.0
"""Time that a process has to finish its work before it is killed."""
RAY_ANSWER_SECONDS: Final = 10.0
"""Time that Ray has to answer a look-up of a name or of its nodes."""
RAY_LEAVE_SECONDS: Final = 20.0
"""Time that Ray has to end its servers and processes."""
PROGRAMME_PUBLISH_SECONDS: Final = 10.0
"""Time that all hosts together have to learn a new version of a programme."""
LEFT_OVER_SECONDS: Final = 30.0
"""Time that the processes of a killed supervisor have to end."""
DRAIN_SECONDS: Final = 300.0
"""Time that a node has to give all its shards away."""

# Money
AMOUNT_MINOR_MAX: Final = 10**18 - 1
"""16 integer digits and 2 minor digits (contract); fits a signed 64-bit integer."""
WIRE_AMOUNT_MINOR_MAX: Final = 10**12 - 1
"""ISO 8583 DE4 is n12."""

# Deadlines, all in milliseconds
AUTHORIZATION_DEADLINE_MS: Final = 4_000
"""From the last byte of a request to the answer; networks give up after about five seconds."""
REST_DEADLINE_MS: Final = 8_000
"""The same for a REST command; long enough to outlive a takeover."""
HOST_STOP_SECONDS: Final = 10.0
"""How long a host that stops waits for its last commits; what is not durable by then was not answered."""
RELEASE_SECONDS: Final = 5.0
"""How long a host that gives shards away waits for its last commits; past it, it keeps them."""
MOVE_SECONDS: Final = 10.0
"""How long the coordinator waits for a host to take or release shards; past it, another host takes them."""
COMMIT_TIMEOUT_MS: Final = 2_500
"""A commit that has not answered by then is unknown: its connection is cut and fresh epochs are taken."""
LOCK_WAIT_PERCENT: Final = 80
"""Share of a caller's time that its statement may wait for one lock: the refusal must still reach the
caller."""
CLIENT_CHECK_MS: Final = 500
"""Interval at which a backend that runs a statement checks that its client is still connected."""
IDLE_IN_TRANSACTION_MS: Final = 5_000
"""How long a transaction may wait for its client's next statement before the server ends the session."""

# Group commit
COMMIT_BATCH_MAX: Final = 256
"""Commands in one transaction: beyond it latency grows faster than throughput."""
BACKLOG_WAIT: Final = 4_096
"""Undurable commands in one host at which new ones wait."""
BACKLOG_RESUME: Final = BACKLOG_WAIT // 2
"""... and at which the waiting ones go on."""
BACKLOG_REFUSE: Final = 16_384
"""Undurable and waiting commands in one host beyond which it refuses: an answer would come too late."""

# Router
ROUTER_BATCH_MAX: Final = 256
"""Commands in one call: what one commit takes. On a machine that is overwhelmed, what is under way must still
be answered in time."""
ROUTER_BATCHES_IN_FLIGHT: Final = 2
"""Ray calls under way to one host: one being decided while the other is being made durable."""
ROUTER_BACKLOG_MAX: Final = 20_000
"""Commands waiting in one router beyond which it refuses."""

ROUTER_WAIT_SECONDS_MAX: Final = 2.0
"""The wait that is to be expected of a queue, beyond which new authorizations for that host are refused:
longer than a takeover takes, and short enough to be answered in time."""

# Host memory
ACTIVE_CARDS_MAX: Final = 50_000
"""Active cards in one host before the least recently used ones are passivated."""
KNOWN_REFERENCES_MAX: Final = 48
"""References to authorizations kept with an active card (three for each); older ones are read back when
named."""
LIFE_MEMBERS_MAX: Final = 64
"""Authorizations of one card that are read back under one network id; networks give a sale an id of its
own."""
RECENT_ANSWERS_MAX: Final = 120_000
"""Answers one host remembers for repeated messages: half a minute at 4,000 a second, in about 50 MB. Older
repeats are found through the journal."""
ANSWERS_FORGOTTEN: Final = 4_096
"""Answers forgotten at a time: few enough not to hold up decisions, and so many that each costs little."""
REPEATS_NOTED_MAX: Final = 8
"""Repeats of one message noted as having got its approval; with more, no edge can reverse it as late."""
ACTIVATION_ANSWERS: Final = 8
"""Answers read back with a card when it is activated."""
ACTIVATION_HOLDS_STEP: Final = 1_000
"""Open holds put into memory in one go, about a millisecond of work, when an account is activated."""
CONTROLS_SHARED_MAX: Final = 1_024
"""Different sets of controls of which cards keep one copy together."""

# Programmes in hosts
REFRESH_SECONDS: Final = 1.0
"""How often a host reads its programme snapshots again, beside being told of every change."""

# Time
CLOCK_SECONDS: Final = 10.0
"""How often a host asks the database for the time; clocks of machines drift by less than a millisecond
meanwhile."""
CLOCK_REFUSED_SECONDS: Final = 1.0
"""... and while its last answer is refused."""
CLOCK_START_SECONDS_MAX: Final = 300.0
"""How far the database's clock and a starting host's machine may be apart: a wrong zone or date is
further."""
CLOCK_STEP_SECONDS_MAX: Final = 30.0
"""By how much the database's clock may step while a host runs: more than a promoted standby's clock differs,
and too little to lapse holds or to begin a day long before its time."""
CLOCK_DRIFT_MAX: Final = 0.001
"""Share of the time that passes by which further steps are allowed; quartz clocks drift by a tenth of it."""

# Lapses
SWEEP_SECONDS: Final = 1.0
"""How often a host looks for holds past their expiry. They have stopped counting anyway."""
BUSY_SWEEP_SECONDS: Final = 0.05
"""... and between two steps while there is more than one step can take."""
SWEEP_CARDS_MAX: Final = 200
"""Cards swept at once: a thousand holds that fall due together must not delay decisions."""

# Cards and controls
CONTROLS_MAX: Final = 32
CONTROL_VALUES_MAX: Final = 500
CVV2_FAILURES_PER_DAY: Final = 5
"""Wrong CVV2 values in a day after which the next is declined without being looked at."""
CARD_VALID_MONTHS: Final = 36

# Cardholders
CARDHOLDER_CARDS_AT_ONCE: Final = 256
"""Cards of one cardholder that are changed at the same time: one batch of the router."""
CARDHOLDER_CHANGES_IN_ROW_MAX: Final = 4
"""Open changes of one cardholder that a request finishes before it gives up on its own."""
CARDHOLDER_RESUME_SECONDS: Final = 20
"""Time a request has to finish its change of a cardholder, or its issue of a card, before a sweeper takes it
over: longer than any command lives."""
CARDHOLDER_SWEEP_SECONDS: Final = 1.0
"""Interval between sweeps for interrupted changes."""
CARDHOLDER_SWEEP_MAX: Final = 20
"""Interrupted changes that one sweep takes."""

# Holds
HOLD_EXPIRY_DAYS_DEFAULT: Final = 7
HOLD_EXPIRY_DAYS_TRAVEL: Final = 30
HOLD_EXPIRY_DAYS_MAX: Final = 31

# Tombstones
TOMBSTONE_DAYS: Final = 30
"""How long a reversal that came before its original counts against it: longer than networks store and forward
a message."""
TOMBSTONES_FORGOTTEN_MAX: Final = 16
"""Expired tombstones that one command forgets; more than one command leaves, so they cannot pile up."""

# Programmes
DECISION_TIMEOUT_MS_MIN: Final = 200
DECISION_TIMEOUT_MS_MAX: Final = 3_000
DECISION_TIMEOUT_MS_DEFAULT: Final = 2_000
DECISION_BODY_BYTES_MAX: Final = 64 * 1024
"""Of a programme's answer; a longer one is not usable."""
LATE_ANSWER_SECONDS: Final = 3.0
"""How long a call to a decision endpoint is listened to after its deadline, to count what comes late."""
DECISION_CALLS_PER_TARGET_MAX: Final = 1_024
"""Connections of one host to one decision endpoint: one that hangs must not make those after it wait."""
STAND_IN_MARGIN_MS: Final = 800
"""What is left of an authorization's time, after the programme had its share, for stand-in and commit."""
STAND_IN_TIMEOUT_MS: Final = 600
"""How long a card's owner waits for the programme's owner before it declines."""
STAND_IN_ASKS_MAX: Final = 256
"""Stand-ins asked for in one command."""
CONSULTATIONS_MAX: Final = 8_192
"""Calls to decision endpoints under way from one host, beyond which it refuses delegated authorizations."""
COLLECT_SECONDS: Final = 10.0
"""How long a host keeps a router waiting for deferred replies before it answers that there are none."""
MAILBOXES_MAX: Final = 256
"""Routers that a host keeps deferred replies for, however long they have collected none."""
MAILBOX_IDLE_SECONDS: Final = 60.0
"""With more routers, those that have collected nothing for so long are forgotten: they are gone."""
MCC_LIST_MAX: Final = 500
STAND_IN_COUNT_MAX: Final = 1_000_000_000
"""Of a policy's ``max_count_per_day``, which decides nothing."""
STIP_WINDOW_DAYS_MAX: Final = 90

# HTTP connections, for each port of each process
HTTP_CONNECTIONS_MAX: Final = 4_096
"""Default of a setting. Descriptors and memory of one API server; idle connections give way to new ones."""
HTTP_CONNECTIONS_PER_ADDRESS_MAX: Final = 1_024
"""Default of a setting. Trusted proxies are exempt: they carry many clients."""
HTTP_HEAD_SECONDS: Final = 10.0
"""From the connection, or a request's first byte, to the end of the request's head."""
HTTP_HEAD_BYTES_MAX: Final = 32 * 1024
"""Request line and headers together."""
HTTP_FRAMING_BYTES_MAX: Final = 64 * 1024
"""Chunk sizes, chunk extensions and trailers of one body, beyond eight bytes for each byte of content."""
HTTP_PIPELINE_MAX: Final = 32
"""Requests that wait for earlier answers on one connection; each holds memory before it is admitted."""
HTTP_IDLE_SECONDS: Final = 75
"""Between two requests of a connection; longer than common load balancers keep theirs (60 s)."""
HTTP_DRAIN_SECONDS: Final = 15.0
"""From the first byte that the kernel did not take to an empty write buffer; slower readers are cut."""
HTTP_LINGER_SECONDS: Final = 2.0
"""After an answer that did not wait for the request's end: reading on keeps the answer from being lost to a
reset of the connection."""
HTTP_LINGER_BYTES_MAX: Final = 1024 * 1024
HTTP_SWEEP_SECONDS: Final = 1.0
"""Interval between checks of all connections against these deadlines."""
TLS_HANDSHAKE_SECONDS: Final = 10.0
TLS_SHUTDOWN_SECONDS: Final = 2.0
TLS_RELOAD_SECONDS: Final = 10.0
"""Interval between checks whether the certificate's files have changed."""
METRICS_CONNECTIONS_MAX: Final = 64
METRICS_CONNECTION_SECONDS: Final = 15.0
"""One scrape: a connection of the metrics port carries one request."""

# HTTP
BODY_BYTES_MAX: Final = 64 * 1024
JSON_DEPTH_MAX: Final = 16
PAGE_LIMIT_DEFAULT: Final = 50
PAGE_LIMIT_MAX: Final = 100
PAGE_SCAN_MAX: Final = 10_000
"""Rows that one page of a filtered list looks at: some 50 ms. A page may end before it is full."""
PAGE_CLOCK_SLACK_MS: Final = 24 * 3_600_000
"""How far the instant in an id may be from the row's ``created_at``: different machines' clocks give them."""
CARD_IDS_MAX: Final = 100
API_CONNECTIONS: Final = 10
"""Connections of one API server to PostgreSQL, those for card states aside."""
POOL_RESERVED: Final = 1
"""Connections that no tenant takes: token look-ups and sweepers have one at any time."""
POOL_WAITING_OF_TENANT_MAX: Final = 1_024
"""Requests of one tenant that wait for a connection; any further one is refused with 429."""
QUOTA_RECOUNT_SECONDS: Final = 60.0
"""Age of a tenant's count of objects at which it is read from the database again."""
QUOTA_TENANTS_COUNTED_MAX: Final = 20_000
"""Counts that one API server remembers."""
STATEMENT_MS_MAX: Final = 4_000
"""Of one statement of the API, in PostgreSQL; as long as a request waits for the whole of its work there."""
ABANDONED_STATEMENT_MS: Final = 500
"""Interval at which PostgreSQL looks whether the API still waits for a running statement."""
IDLE_TRANSACTION_MS: Final = 2 * STATEMENT_MS_MAX
"""After it PostgreSQL ends a session whose transaction waits for the API: its process is frozen or gone."""
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255
IDEMPOTENCY_RETENTION_HOURS: Final = 24
HAND_OVER_LEASE_SECONDS: Final = 10
"""After this a repetition takes over a request whose API server has given no answer to its key."""
TOKEN_SECONDS: Final = 3_600
TOKEN_CACHE_SECONDS: Final = 1
"""A revoked token is refused everywhere within this time."""
TOKEN_FAILURES_PER_MINUTE: Final = 30
"""Default of a setting: failed authentications of one client id."""
TOKEN_FAILURES_PER_ADDRESS: Final = 10
"""Times that limit for one address: many clients may share one."""
EVENT_RETENTION_DAYS: Final = 30
RETENTION_GRACE_DAYS: Final = 1
"""How much longer a row rests than it is shown."""
RETENTION_ROWS_MAX: Final = 1_000
"""Rows deleted in one statement: a month of events that falls due must not delay decisions."""
RETENTION_SECONDS: Final = 60.0
"""How often it is looked for what is due."""
RETENTION_BUSY_SECONDS: Final = 0.25
"""... and between two steps while there is more than one step can take."""

# Wire
FRAME_BYTES_MAX: Final = 4_096
MALFORMED_FRAMES_MAX: Final = 3
"""Malformed frames on one connection after which it is closed."""
FRAME_RECEIPT_SECONDS: Final = 10
"""From the first byte of a frame to its last; slower peers are cut."""
EDGE_CONNECTIONS_MAX: Final = 1_024
EDGE_CONNECTIONS_PER_ADDRESS_MAX: Final = 768
"""Connections of one address: the other places are reserved for other addresses."""
EDGE_IDLE_SECONDS: Final = 300
"""Time without a message after which a connection without open requests is closed; networks send echo tests
every minute or so."""
EDGE_SILENT_SECONDS: Final = 60
"""The same for a connection that has never sent a request."""
EDGE_SEND_BUFFER_BYTES: Final = 128 * 1024
"""Answers of one connection in the kernel: what a peer does not read stays small."""
EDGE_IN_FLIGHT_MAX: Final = 4_096
"""Requests of one connection being decided; beyond it reading pauses."""
EDGE_OPEN_MAX: Final = 2_048
"""Requests of all connections being decided (those that wait for a programme's own decision are not), beyond
which new authorizations are refused at once. Reading on and refusing costs little; a network that is not read
from waits for answers that come too late."""
EDGE_WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Answers waiting for a peer to read them; beyond it nothing more is read from that peer, and one that
stays deaf is cut."""
PROBES_BURST: Final = 100
"""Unknown card numbers and wrong values of one acquirer at one address that are answered at once."""
PROBES_PER_SECOND: Final = 5.0
"""... and how fast that number comes back. Above it they are slowed and refused (card testing)."""
PROBES_OF_SOURCE_FACTOR: Final = 4
"""How much more one address may send under several acquirer ids, which it chooses itself."""
PROBE_KEYS_MAX: Final = 4_096
"""Addresses and acquirers that one edge tells apart; the least recently seen are forgotten."""
PROBE_DELAY_SECONDS: Final = 2.0
"""How much later an answer beyond the limit leaves: within the network's deadline."""
PROBES_DELAYED_MAX: Final = 1_024
"""Delayed answers of one edge. Each holds a place of its connection, and good cards need places too."""
PAN_CACHE_MAX: Final = 100_000
"""Cards whose number one edge remembers, about 40 MB; others cost a look-up that is shared with their
neighbours."""
LOOKUP_BATCH_MAX: Final = 512
"""Keys in one look-up."""
UNDO_SECONDS_MIN: Final = 0.05
UNDO_SECONDS_MAX: Final = 2.0
"""Pauses between attempts of an edge to undo what came too late, doubling from the one to the other."""
UNDO_STOP_SECONDS: Final = 5
"""How long an edge that stops still tries."""
UNDONE_KEYS_MAX: Final = 100_000
"""Undone authorizations one edge remembers, so that their repeats are not answered with an approval."""
NETWORK_TIMEOUT_MS: Final = 5_000
"""How long an acquirer waits for an answer before it takes it for lost."""
WITHHELD_ANSWER_MS: Final = NETWORK_TIMEOUT_MS + 1_000
"""From the arrival of a test message that asks for a late answer to that answer: after its network has given
up."""
NETWORK_LATE_SECONDS: Final = 60
"""How long the simulated network still notes an answer that came too late."""
FORWARD_ATTEMPTS: Final = 30
FORWARD_SECONDS_MIN: Final = 0.25
FORWARD_SECONDS_MAX: Final = 30.0
"""How often, and with which pauses, the simulated network repeats what must arrive: reversals, advices and
presentments."""
RESUME_HOURS: Final = 24
"""Reversals and presentments without an answer that a restarted network still repeats."""
SETTLE_HOURS: Final = 24
"""Simulations that failed on the wire whose outcome the simulated network still looks up."""
SETTLE_AFTER_SECONDS: Final = 15
"""From such a failure to the first look: an edge that answered too late has reversed its approval by then."""
SETTLE_POLL_SECONDS: Final = 3.0
SETTLE_BATCH_MAX: Final = 256
"""Outcomes that are looked up in one step."""
CLEARING_BATCH_MAX: Final = 128
"""Sales that are cleared by themselves at the same time; the next ones wait for their answers."""
CLEARING_POLL_SECONDS: Final = 0.5
CLEARING_LEASE_SECONDS: Final = 60
"""How long one network keeps due sales to itself; past it they are due again."""
ECHO_SECONDS: Final = 30
"""A session that has heard nothing for this long asks whether the other side is there."""
RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 2.0
"""Pauses between attempts of a session to connect, doubling from the one to the other."""
SIMULATION_BATCH_MAX: Final = 512
"""Simulation rows in one statement."""
STAN_BLOCK: Final = 1_000
"""STANs taken from the database at once; unused ones are skipped after a restart."""

# Webhooks
WEBHOOK_ENDPOINTS_MAX: Final = 16
"""Endpoints of a tenant in one mode (contract, section 9)."""
WEBHOOK_SECRET_OVERLAP_HOURS: Final = 24
"""How long the secret before the last rotation still signs."""
WEBHOOK_TIMEOUT_SECONDS: Final = 10
"""For a whole attempt, from the look-up of the receiver's name to the last byte of its answer."""
WEBHOOK_ANSWER_BYTES_MAX: Final = 64 * 1024
"""Bytes of a receiver's answer that are read."""
SIGNATURE_TOLERANCE_SECONDS: Final = 300
"""How far the time of a signature may be from the verifier's clock."""

# Relay and wake-ups
RELAY_BATCH_MAX: Final = 128
"""Events that become deliveries in one transaction: up to sixteen times as many rows, for whose flush the
commit of a decision may have to wait."""
RELAY_BUSY_SECONDS: Final = 0.05
"""Pause of the relay while events keep coming; after a full batch it rests as long as that took."""
RELAY_IDLE_SECONDS: Final = 0.25
"""... and while there are none: looking costs one round trip."""
RELAY_TIMEOUT_MS: Final = 10_000
"""For one batch; the relay then begins again, as another one would."""
WAKE_UPS_KEPT_MAX: Final = 20_000
"""Wake-ups in the stream; older ones are cut off, and what they were about is found in the database."""
WAKE_UPS_WAITING_MAX: Final = 20_000
"""Wake-ups on their way to Redis beyond which they are dropped: Redis is away, and memory is bounded."""
WAKE_UPS_AT_ONCE_MAX: Final = 256
"""Wake-ups written or read in one round trip."""
WAKE_UP_WAIT_SECONDS: Final = 2.0
"""How long a dispatcher's question for wake-ups stays open."""
WAKE_UP_STUCK_SECONDS: Final = 60.0
"""Wake-ups that their reader has not acknowledged for so long go to another one."""
REDIS_TIMEOUT_SECONDS: Final = 1.0
"""For a round trip to Redis; whoever asked goes on without it."""
BACKLOG_COUNT_MAX: Final = 100_000
"""Due deliveries beyond which a measurement stops counting."""
BACKLOG_MEASURE_SECONDS: Final = 5.0
SCHEDULE_SLACK_SECONDS: Final = 3_600
"""By how much an attempt may be scheduled later than its place, before it counts as put there by a wrong
clock."""

# Dispatchers
ATTEMPTS_OF_ENDPOINT_MAX: Final = 16
"""Attempts of one dispatcher to one endpoint at the same time."""
ATTEMPTS_OF_SUSPECT_MAX: Final = 4
"""... while its receiver lets attempts wait without an answer."""
ATTEMPT_SLOW_SECONDS: Final = 1.0
"""An attempt that takes longer leaves its place to others: receivers that hang must not use them all up."""
ATTEMPTS_QUICK_MAX: Final = 256
"""Attempts of one dispatcher that are not slow yet."""
ATTEMPTS_SLOW_MAX: Final = 1_024
"""Slow attempts beyond which receivers that are known for them wait."""
ATTEMPTS_MAX: Final = 1_536
"""Attempts of one dispatcher, whatever they are."""
CLAIM_BATCH_MAX: Final = 128
"""Deliveries claimed in one statement."""
CLAIM_ENDPOINTS_MAX: Final = 64
"""Endpoints whose deliveries are looked for in one statement."""
CLAIM_PACE_SECONDS: Final = 0.01
"""From one claim to the next, and from one record to the next: under load they share transactions."""
CLAIM_RESTS: Final = 5
"""... and a claim that takes longer is followed by a rest of so many times its length,"""
CLAIM_REST_SECONDS_MAX: Final = 0.5
"""but not by a longer one than this: the database may only have stood still."""
CLAIM_SECONDS: Final = 30.0
"""A claimed delivery is nobody else's for at least so long: longer than an attempt and its record."""
CLAIM_FRESH_SECONDS: Final = 10.0
"""A claim that has waited longer, in a process that stood still, is not sent any more."""
RECORD_BATCH_MAX: Final = 256
"""Attempts recorded in one statement."""
DELIVERY_SWEEP_SECONDS: Final = 1.0
"""How often a dispatcher looks for deliveries that are due and that nobody has told it of."""
DELIVERY_SWEEP_ENDPOINTS_MAX: Final = 256
"""Endpoints looked at in one such step."""
DISPATCHER_STOP_SECONDS: Final = 5.0
"""How long a dispatcher that stops waits for the answers of receivers."""
OPEN_SECRETS_MAX: Final = 10_000
"""Opened signing secrets one dispatcher keeps."""

# Outgoing calls
EGRESS_URL_CHARS_MAX: Final = 2_048
EGRESS_CONNECTIONS_MAX: Final = 2_048
"""Open connections of one process to receivers."""
EGRESS_CONNECTIONS_PER_TARGET_MAX: Final = 64
"""... and to one address and name: a receiver that hangs holds this many and no more."""
EGRESS_IDLE_SECONDS: Final = 4.0
"""How long an idle connection is kept: shorter than what common servers keep, so that we close first and no
request meets a connection that is being closed."""
EGRESS_CONNECT_SECONDS: Final = 4.0
"""To connect to one address, TLS included, before the next one is tried."""
EGRESS_ADDRESSES_MAX: Final = 2
"""Addresses of one name that are tried in one attempt."""
EGRESS_CHECK_SECONDS: Final = 5.0
"""To resolve a name that is only being checked."""
EGRESS_ANSWERS_KEPT_SECONDS: Final = 1.0
"""How long the answer of a resolver is used."""
EGRESS_ANSWERS_KEPT_MAX: Final = 10_000
EGRESS_LOOKUPS_MAX: Final = 64
EGRESS_LOOKUPS_OF_PARTY_MAX: Final = 8
"""Look-ups under way for one tenant, or under one domain."""
EGRESS_LOOKUPS_WAITING_MAX: Final = 256
"""Look-ups under way and waiting for one tenant, or under one domain; any further one fails at once."""
"""Names looked up at the same time."""

# Identity verification
KYC_PENDING_DAYS: Final = 30
"""How long a check waits for its inputs (contract)."""
KYC_PASSED_DAYS: Final = 730
"""How long a passed check stands, unless its document expires before; supervisors ask for a new look every
one to five years, by risk."""
KYC_AGE_YEARS_MIN: Final = 18
KYC_ATTEMPTS_MAX: Final = 3
"""Evaluations of one check; a document that cannot be read is asked for again until then."""
KYC_EVALUATION_SECONDS: Final = 2.0
"""How long a submission waits for the identity provider; past it the check goes to review and is evaluated
again later."""
KYC_RETRY_SECONDS_MIN: Final = 5
KYC_RETRY_SECONDS_MAX: Final = 3_600
"""Pauses between such evaluations, doubling from the one to the other."""
KYC_TRIES_MAX: Final = 12
"""Evaluations without a result in a row, over more than two hours; then the check waits for a person."""
KYC_LEASE_SECONDS: Final = 60
"""How long one server keeps a due evaluation to itself."""
KYC_SWEEP_SECONDS: Final = 2.0
"""How often each API server looks for checks that are due or have run out. The latter have stopped counting
anyway."""
KYC_SWEEP_MAX: Final = 50
"""Checks of each kind in one look."""
CAPTURE_SESSION_SECONDS: Final = 3_600
BINDS_PER_WINDOW: Final = 10
"""Document types bound from one source address in a window (contract)."""
CAPTURE_REQUESTS_PER_WINDOW: Final = 120
"""All other requests of the capture page from one source address in a window: a person makes about ten."""
VISION_WINDOW_SECONDS: Final = 60
EVIDENCE_BYTES_MAX: Final = 4 * 1024 * 1024
"""One picture. The page shrinks what a camera gives to a tenth of this."""
EVIDENCE_RECEIPT_SECONDS: Final = 60
"""From a picture's first byte to its last: 4 MB from a phone with half a megabit a second."""
EVIDENCE_UPLOADS_MAX: Final = 16
"""Pictures that one server receives at a time: 64 MB."""

# Logs
LOG_REPEATS_MAX: Final = 5
"""Equal lines that are written within ``LOG_REPEATS_SECONDS``; the rest are counted."""
LOG_REPEATS_SECONDS: Final = 10.0
LOG_KINDS_MAX: Final = 1_000
"""Kinds of lines that are told apart."""
LOG_FRAMES_MAX: Final = 8
"""Places that an exception came through, the innermost ones."""

CONSOLE_SESSION_HOURS: Final = 12

# Console, whose panels are read every two seconds
CONSOLE_WINDOW_SECONDS: Final = 300
CONSOLE_SLOT_SECONDS: Final = 5
"""One point of the chart."""
CONSOLE_DECISIONS_MAX: Final = 10_000
"""Of the window: of more than 33 a second it shows the newest."""
CONSOLE_SIMULATIONS_MAX: Final = 1_000
CONSOLE_PROGRAMMES_MAX: Final = 50
CONSOLE_DELIVERIES_MAX: Final = 1_000
"""Of each endpoint."""
CONSOLE_TRANSACTIONS_MAX: Final = 20

assert HOST_SILENCE_SECONDS <= ROLE_SILENCE_SECONDS
assert ROLE_PING_SECONDS + ROLE_SILENCE_SECONDS + PULSE_LATE_SECONDS < ROLE_REPLACED_SECONDS
assert ROLE_LOOK_SECONDS * STANDSTILL_LOOKS < READY_SECONDS
assert BACKLOG_RESUME < BACKLOG_WAIT < BACKLOG_REFUSE
assert COMMIT_BATCH_MAX <= BACKLOG_RESUME
assert 0 < POOL_RESERVED < API_CONNECTIONS
assert CARDHOLDER_RESUME_SECONDS * 1000 > 2 * REST_DEADLINE_MS
assert COMMIT_TIMEOUT_MS < AUTHORIZATION_DEADLINE_MS < REST_DEADLINE_MS < HAND_OVER_LEASE_SECONDS * 1000
assert CLIENT_CHECK_MS < COMMIT_TIMEOUT_MS < IDLE_IN_TRANSACTION_MS
assert LOCK_WAIT_PERCENT < 100
assert COMMIT_TIMEOUT_MS < RELEASE_SECONDS * 1000 < MOVE_SECONDS * 1000
assert max(COLLECT_SECONDS, REST_DEADLINE_MS / 1000) * 2 < MAILBOX_IDLE_SECONDS
assert DECISION_TIMEOUT_MS_MAX + STAND_IN_MARGIN_MS < AUTHORIZATION_DEADLINE_MS
assert STAND_IN_TIMEOUT_MS < STAND_IN_MARGIN_MS
assert AUTHORIZATION_DEADLINE_MS < NETWORK_TIMEOUT_MS < WITHHELD_ANSWER_MS < NETWORK_LATE_SECONDS * 1000
assert EDGE_CONNECTIONS_PER_ADDRESS_MAX < EDGE_CONNECTIONS_MAX
assert FRAME_RECEIPT_SECONDS < ECHO_SECONDS < EDGE_SILENT_SECONDS < EDGE_IDLE_SECONDS
assert PROBE_DELAY_SECONDS * 1000 < AUTHORIZATION_DEADLINE_MS
assert PROBES_DELAYED_MAX < EDGE_IN_FLIGHT_MAX // 2
assert EDGE_OPEN_MAX < EDGE_IN_FLIGHT_MAX < ROUTER_BACKLOG_MAX
assert 2 * ROUTER_WAIT_SECONDS_MAX * 1000 <= AUTHORIZATION_DEADLINE_MS
assert ROUTER_BATCH_MAX <= COMMIT_BATCH_MAX
assert NETWORK_TIMEOUT_MS < CLEARING_LEASE_SECONDS * 1000
assert UNDO_SECONDS_MAX + UNDO_STOP_SECONDS < SETTLE_AFTER_SECONDS < SETTLE_HOURS * 3600
assert WIRE_AMOUNT_MINOR_MAX < AMOUNT_MINOR_MAX < 2**63
assert EGRESS_CONNECTIONS_PER_TARGET_MAX * 8 <= EGRESS_CONNECTIONS_MAX
assert ATTEMPTS_OF_ENDPOINT_MAX <= EGRESS_CONNECTIONS_PER_TARGET_MAX
assert ATTEMPTS_QUICK_MAX + ATTEMPTS_SLOW_MAX <= ATTEMPTS_MAX < EGRESS_CONNECTIONS_MAX
assert CLAIM_FRESH_SECONDS + WEBHOOK_TIMEOUT_SECONDS < CLAIM_SECONDS
assert DISPATCHER_STOP_SECONDS < WEBHOOK_TIMEOUT_SECONDS < WAKE_UP_STUCK_SECONDS
assert KYC_EVALUATION_SECONDS < KYC_RETRY_SECONDS_MIN < KYC_LEASE_SECONDS < KYC_RETRY_SECONDS_MAX
assert BODY_BYTES_MAX < EVIDENCE_BYTES_MAX
assert HTTP_HEAD_SECONDS + HTTP_SWEEP_SECONDS + HTTP_LINGER_SECONDS < 15.0
assert HTTP_CONNECTIONS_PER_ADDRESS_MAX < HTTP_CONNECTIONS_MAX
