"""The limits of Stanchion with their reasons; relations between them are asserted at import.

This file holds what protects the system from overload, what clients and operators can observe, and what
several packages must agree on. Settings (``actors.settings``) may change some of it. Constants that concern
one module only stay at the head of that module: pauses and poll intervals, the shape of one input, and
lengths that a format or an algorithm fixes.
"""

from __future__ import annotations

from typing import Final

# Ownership
SHARD_COUNT: Final = 256
"""Number of shards. The last byte of every id is its shard: the unit of ownership and of movement."""

# Liveness of processes
HOST_PING_SECONDS: Final = 0.25
"""Interval between pings of a shard host."""
HOST_SILENCE_SECONDS: Final = 1.0
"""A shard host that leaves a ping unanswered for this long counts as dead. A false alarm costs a takeover,
never money."""
HOST_CHECK_SECONDS: Final = 0.05
"""Interval between checks of the kernel's state of a shard host on the same machine."""
ROLE_PING_SECONDS: Final = 0.5
"""Interval between pings of every other process."""
ROLE_SILENCE_SECONDS: Final = 2.0
"""The same as ``HOST_SILENCE_SECONDS`` for every other process. No process takes over its work, so a false
alarm costs its clients a restart."""
ROLE_CHECK_SECONDS: Final = 0.1
"""The same as ``HOST_CHECK_SECONDS`` for every other process."""
STOPPED_CHECKS: Final = 2
"""Consecutive checks that must find a process stopped or gone before it counts as lost."""
WATCHER_LATE_SECONDS: Final = 0.25
"""A watcher that notices a silence this much too late had no processor time itself, and pings again."""
ROLE_REPLACED_SECONDS: Final = 5.0
"""Time from the freeze of a process to its successor; the rest after detection is for the start of a
Python process."""
ROLE_PATIENCE_SECONDS: Final = 60.0
"""A process that is killed for silence again within this time is allowed twice the silence, so that a machine
with too little processor time does not spend it on restarts."""
ROLE_PATIENCE_DOUBLINGS_MAX: Final = 3
"""Number of times that the allowed silence is doubled."""
RAY_CHECK_SECONDS: Final = 0.25
"""Interval between checks of the servers of a local Ray."""
READY_SECONDS: Final = 1.0
"""Time limit of each part of a readiness check; all parts are checked at once."""
ROLE_START_SECONDS: Final = 60.0
"""Time from the start of a process until it must serve; afterwards it is killed and started again."""
ROLE_STOP_SECONDS: Final = 15.0
"""Time that a process has to finish its work before it is killed."""
RAY_ANSWER_SECONDS: Final = 10.0
"""Time limit of Ray's answer to a look-up of a name or of its nodes."""
RAY_IDLE_SECONDS: Final = 2.0
"""Time that open calls have to end before the supervisor shuts Ray down."""
RAY_LEAVE_SECONDS: Final = 20.0
"""Time that Ray has to end its servers and processes when the supervisor ends."""
RAY_LOST_SECONDS: Final = 60.0
"""Time that a lost Ray has to end before it is started again; the supervisor ends when it does not."""
PROGRAMME_PUBLISH_SECONDS: Final = 10.0
"""Time limit for publishing a new version of a programme to all hosts."""
ORPHAN_STOP_SECONDS: Final = 30.0
"""Time that the orphaned processes of a killed supervisor have to end."""
DRAIN_SECONDS: Final = 300.0
"""Time that a node has to hand over all its shards."""

# Money
AMOUNT_MINOR_MAX: Final = 10**18 - 1
"""16 integer digits and 2 minor digits; fits a signed 64-bit integer."""
WIRE_AMOUNT_MINOR_MAX: Final = 10**12 - 1
"""ISO 8583 DE4 is n12."""

# Deadlines
AUTHORIZATION_DEADLINE_MS: Final = 4_000
"""From the last byte of a request to the answer; networks give up after about five seconds."""
REST_DEADLINE_MS: Final = 8_000
"""The same for a REST command; longer than a takeover of shards."""
HOST_STOP_SECONDS: Final = 10.0
"""Time that a stopping host waits for its last commits; commands that are not durable by then were not
answered."""
RELEASE_SECONDS: Final = 5.0
"""Time that a host waits for its last commits before it releases shards; afterwards it keeps them."""
MOVE_SECONDS: Final = 10.0
"""Time limit for a host to take or release shards; afterwards another host takes them."""
COMMIT_TIMEOUT_MS: Final = 2_500
"""A commit without an answer by then has an unknown outcome: its connection is cut and new epochs are
taken."""
LOCK_WAIT_PERCENT: Final = 80
"""Share of a caller's time that its statement may wait for one lock; the rest is for the refusal to reach the
caller."""
CLIENT_CHECK_MS: Final = 500
"""Interval at which a backend that runs a statement checks that its client is still connected."""
IDLE_IN_TRANSACTION_MS: Final = 5_000
"""Time that a transaction may wait for its client's next statement before the server ends the session."""
PRIMARY_WATCH_SECONDS: Final = 5.0
"""Interval at which a process looks for a newer primary, if its database address names several servers."""
PRIMARY_WATCH_SECONDS_OF_ONE: Final = 30.0
"""The same if the address names one server, behind which a failover can exchange the primary."""
PRIMARY_PROBE_SECONDS: Final = 2.0
"""Time limit of such a look."""

# Group commit
COMMIT_BATCH_MAX: Final = 256
"""Commands in one transaction. With larger batches, latency grows faster than throughput."""
BACKLOG_WAIT: Final = 4_096
"""Undurable commands in one host from which new commands wait."""
BACKLOG_RESUME: Final = BACKLOG_WAIT // 2
"""Hysteresis: waiting commands resume at half the limit."""
BACKLOG_REFUSE: Final = 16_384
"""Undurable and waiting commands in one host above which it refuses: an answer would come too late."""

# Router
ROUTER_BATCH_MAX: Final = 256
"""Commands in one call: the size of one commit. On an overloaded machine, open commands must still be
answered in time."""
ROUTER_BATCHES_IN_FLIGHT: Final = 2
"""Open calls to one host: one batch is decided while the other is made durable."""
ROUTER_BACKLOG_MAX: Final = 20_000
"""Commands waiting in one router above which it refuses."""
ROUTER_WAIT_SECONDS_MAX: Final = 2.0
"""Expected wait in a host's queue above which new authorizations for that host are refused: longer than a
takeover takes, and short enough to be answered in time."""

# Host memory
ACTIVE_CARDS_MAX: Final = 50_000
"""Active cards in one host before the least recently used ones are passivated."""
KNOWN_REFERENCES_MAX: Final = 48
"""References to authorizations cached with an active card (three for each); older ones are read back when a
message names them."""
NETWORK_GROUP_MAX: Final = 64
"""Authorizations of one card that are read back under one network id; networks give each sale an id of its
own."""
RECENT_ANSWERS_MAX: Final = 120_000
"""Answers cached in one host for repeated messages: half a minute at 4,000 a second, in about 50 MB. Older
repeats are found through the journal."""
ANSWERS_EVICTED: Final = 4_096
"""Cached answers evicted at a time: few enough not to delay decisions, enough that each costs little."""
REPEATS_RECORDED_MAX: Final = 8
"""Repeats of one message recorded as having received its approval; with more, no edge can reverse it as
late."""
ACTIVATION_ANSWERS: Final = 8
"""Answers read back with a card when it is activated."""
ACTIVATION_HOLDS_STEP: Final = 1_000
"""Open holds loaded into memory without a pause (about a millisecond of work) when an account is
activated."""
CONTROLS_SHARED_MAX: Final = 1_024
"""Size of the interning cache for control sets."""

# Programmes in shard hosts
PROGRAMME_REFRESH_SECONDS: Final = 1.0
"""Interval at which a host reads changed programmes again, in case an announcement was lost."""

# Time
CLOCK_SECONDS: Final = 10.0
"""Interval at which a host reads the database's clock; clocks of machines drift by less than a millisecond
meanwhile."""
CLOCK_REFUSED_SECONDS: Final = 1.0
"""The same while the last reading is refused."""
CLOCK_START_SECONDS_MAX: Final = 300.0
"""Largest accepted difference between the database's clock and the clock of a starting host's machine; a
wrong time zone or date differs by more."""
CLOCK_STEP_SECONDS_MAX: Final = 30.0
"""Largest accepted step of the database's clock while a host runs: more than the clock of a promoted standby
differs, and too little to lapse holds or to begin a day long before its time."""
CLOCK_DRIFT_MAX: Final = 0.001
"""Share of the elapsed time by which further steps are allowed; quartz clocks drift by a tenth of it."""

# Expiry of holds
HOLD_SWEEP_SECONDS: Final = 1.0
"""Interval at which a host closes holds past their expiry. They have already stopped counting."""
HOLD_SWEEP_BUSY_SECONDS: Final = 0.05
"""The same while one step cannot close them all."""
HOLD_SWEEP_CARDS_MAX: Final = 200
"""Cards in one step: a thousand holds that expire together must not delay decisions."""

# Cards and controls
CONTROLS_MAX: Final = 32
"""Controls of one card."""
CONTROL_VALUES_MAX: Final = 500
"""Values in the list of one control."""
CVV2_FAILURES_PER_DAY: Final = 5
"""Wrong CVV2 values in a day after which authorizations with a CVV2 are declined without a check."""
CARD_VALID_MONTHS: Final = 36
"""Time from a card's creation to its expiry."""

# Authorization rules
RULES_ACTIVE_MAX: Final = 50
"""Active rules of one programme, card product or card: they are all evaluated in each of its decisions."""
RULES_SHADOW_MAX: Final = 10
"""Shadow rules of the same."""
RULES_DRAFT_MAX: Final = 100
"""Drafts of the same: the owner keeps them in memory."""
RULE_CONDITIONS_MAX: Final = 16
"""Conditions of one rule, and of the filter of one velocity."""
RULE_VALUES_MAX: Final = 500
"""Values in the list of one condition."""
RULE_WINDOW_SECONDS_MIN: Final = 10
RULE_WINDOW_SECONDS_MAX: Final = 90 * 86_400
"""Bounds of a trailing window of a velocity."""
VELOCITY_EXACT_MAX: Final = 1_024
"""Purchases that one window of a velocity keeps one by one; older ones are merged into buckets."""
VELOCITY_BUCKET_ENTRIES: Final = 64
"""Purchases merged into one bucket."""
VELOCITY_BUCKETS_MAX: Final = 64
"""Buckets of one window; beyond it the two oldest are merged."""
VELOCITY_KEYS_MAX: Final = 4_096
"""Merchants or countries that one bucket tells apart; beyond it each purchase counts as another one."""
RULE_SETS_MAX: Final = 4_096
"""Size of the caches of compiled rules."""

# Cardholders
CARDHOLDER_CARDS_AT_ONCE: Final = 256
"""Cards of one cardholder that are changed concurrently: one batch of the router."""
CARDHOLDER_CHANGES_IN_ROW_MAX: Final = 4
"""Open changes of one cardholder that a request finishes before it gives up on its own change."""
CARDHOLDER_RESUME_SECONDS: Final = 20
"""Time that a request has to finish its change of a cardholder, or its issue of a card, before a sweeper
takes it over: longer than any command lives."""
CARDHOLDER_SWEEP_SECONDS: Final = 1.0
"""Interval between sweeps for interrupted changes."""
CARDHOLDER_SWEEP_MAX: Final = 20
"""Interrupted changes in one sweep."""

# Holds
HOLD_EXPIRY_DAYS_DEFAULT: Final = 7
"""Lifetime of a hold, unless its programme sets another one."""
HOLD_EXPIRY_DAYS_TRAVEL: Final = 30
"""Minimum lifetime of a hold at a travel merchant."""
HOLD_EXPIRY_DAYS_MAX: Final = 31
"""Longest lifetime of a hold that a programme can set."""

# Tombstones
TOMBSTONE_DAYS: Final = 30
"""Lifetime of a reversal that came before its original: longer than networks store and forward a message."""
TOMBSTONES_DELETED_MAX: Final = 16
"""Expired tombstones that one command deletes; more than one command leaves, so their number is bounded."""

# Programmes
DECISION_TIMEOUT_MS_MIN: Final = 200
DECISION_TIMEOUT_MS_MAX: Final = 3_000
DECISION_TIMEOUT_MS_DEFAULT: Final = 2_000
"""Bounds and default of the time that a programme's decision endpoint has to answer."""
DECISION_BODY_BYTES_MAX: Final = 64 * 1024
"""Size of a decision endpoint's answer; a longer one is unusable."""
LATE_ANSWER_SECONDS: Final = 3.0
"""Time that a call to a decision endpoint stays open after its deadline, to count late answers."""
DECISION_CALLS_PER_TARGET_MAX: Final = 1_024
"""Connections of one host to one decision endpoint: calls that hang must not delay later ones."""
STAND_IN_MARGIN_MS: Final = 800
"""Part of an authorization's time: reserved for stand-in and commit after the call to its programme."""
STAND_IN_TIMEOUT_MS: Final = 600
"""Time that a card's owner waits for the programme's owner before it declines."""
STAND_IN_REQUESTS_MAX: Final = 256
"""Stand-in requests in one command."""
CONSULTATIONS_MAX: Final = 8_192
"""Open calls of one host to decision endpoints above which it refuses delegated authorizations."""
COLLECT_SECONDS: Final = 10.0
"""Time that a host holds a router's request for deferred replies open before it returns none."""
MAILBOXES_MAX: Final = 256
"""Routers for which a host stores deferred replies, however long ago they collected any."""
MAILBOX_IDLE_SECONDS: Final = 60.0
"""With more routers, those that have not collected for this long are forgotten: they have ended."""
MCC_LIST_MAX: Final = 500
"""Merchant categories in one list of a stand-in policy."""
STAND_IN_COUNT_MAX: Final = 1_000_000_000
"""Largest ``max_count_per_day`` of a policy, which affects no decision."""
STIP_WINDOW_DAYS_MAX: Final = 90
"""Longest window of a stand-in activity report."""

# HTTP connections, for each port of each process
HTTP_CONNECTIONS_MAX: Final = 4_096
"""Default of a setting. Bounds descriptors and memory of one API server; idle connections give way to new
ones."""
HTTP_CONNECTIONS_PER_ADDRESS_MAX: Final = 1_024
"""Default of a setting. Trusted proxies are exempt: they carry many clients."""
HTTP_HEAD_SECONDS: Final = 10.0
"""From the connection, or a request's first byte, to the end of the request's head."""
HTTP_HEAD_BYTES_MAX: Final = 32 * 1024
"""Request line and headers together."""
HTTP_FRAMING_BYTES_MAX: Final = 64 * 1024
"""Chunk sizes, chunk extensions and trailers of one body, in addition to eight bytes for each byte of
content."""
HTTP_PIPELINE_MAX: Final = 32
"""Requests on one connection that wait for earlier answers; each uses memory before it is admitted."""
HTTP_IDLE_SECONDS: Final = 75
"""Between two requests of a connection; longer than the 60 s of common load balancers."""
HTTP_DRAIN_SECONDS: Final = 15.0
"""From the first byte that the kernel did not accept to an empty write buffer; slower readers are cut."""
HTTP_LINGER_SECONDS: Final = 2.0
"""Time that the server reads on after an answer that came before the request's end, so that a reset of the
connection does not destroy the answer."""
HTTP_LINGER_BYTES_MAX: Final = 1024 * 1024
"""Bytes that are read and dropped in this time."""
HTTP_SWEEP_SECONDS: Final = 1.0
"""Interval between checks of all connections against these deadlines."""
TLS_HANDSHAKE_SECONDS: Final = 10.0
"""From the connection to the end of the handshake."""
TLS_SHUTDOWN_SECONDS: Final = 2.0
"""Time limit of the closing handshake."""
TLS_RELOAD_SECONDS: Final = 10.0
"""Interval between checks whether the certificate's files have changed."""
METRICS_CONNECTIONS_MAX: Final = 64
"""Open connections of the metrics port."""
METRICS_CONNECTION_SECONDS: Final = 15.0
"""Time limit of one scrape: a connection of the metrics port carries one request."""

# HTTP
BODY_BYTES_MAX: Final = 64 * 1024
"""Size of a request's body."""
JSON_DEPTH_MAX: Final = 16
"""Nesting of a request's JSON."""
BODY_RECEIPT_SECONDS: Final = 10.0
"""From the end of a request's head to the end of its body."""
OAUTH_FORM_FIELDS_MAX: Final = 20
"""Fields of a token request's form."""
CONSOLE_FORM_FIELDS_MAX: Final = 2_000
"""Fields of a form of the console; the longest is the editor of authorization rules."""
SECRET_BYTES: Final = 32
"""Random bytes of a secret that is shown once: client secrets, access and capture tokens, sessions, decision
secrets."""
PAGE_LIMIT_DEFAULT: Final = 50
"""Default and largest number of items on a page of a list."""
PAGE_LIMIT_MAX: Final = 100
PAGE_SCAN_MAX: Final = 2_000
"""Rows read for one page of a filtered list: about 10 ms. A page can end before it is full."""
PAGE_CLOCK_SLACK_MS: Final = 24 * 3_600_000
"""Largest difference between the instant in an id and the row's ``created_at``: they come from the clocks of
different machines."""
PAGE_KEYS_MAX: Final = 1_000
"""Index ranges that one page merges: cards of a cardholder, programmes of a tenant, category codes of a
programme. A filter with more of them reads the tenant's rows instead, ``PAGE_SCAN_MAX`` for a page."""
PAGE_MERGE_MAX: Final = 200
"""Rows of merged index ranges that one page looks at when other filters apply as well."""
METADATA_KEYS_MAX: Final = 20
"""Keys in the metadata of one object."""
METADATA_KEY_CHARS_MAX: Final = 40
METADATA_VALUE_CHARS_MAX: Final = 500
METADATA_RESERVED_SECONDS: Final = 600
"""Age at which a sweeper deletes the metadata of an object that was not created: longer than any command
lives."""
METADATA_SWEEP_SECONDS: Final = 60.0
"""Interval between these sweeps."""
RULE_MATCH_DAYS: Final = 400
"""Age at which a match of an authorization rule is deleted: a year, so that reports can compare seasons."""
RULE_REPORT_DAYS_MAX: Final = 92
"""Days of the window of one report."""
RULE_REPORT_MATCHES_MAX: Final = 200_000
"""Matches that one report reads: half a second. A report of more matches says that it is not complete."""
RULE_REPORT_VERSIONS_MAX: Final = 20
"""Versions in one report, the newest."""
RULE_REPORT_CODES_MAX: Final = 100
"""Category codes and countries of one version in a report, those with the most matches."""
RULE_REPORT_SAMPLES_MAX: Final = 100
"""Transactions of one version that a report names."""
RULE_CARD_AGE_DAYS_MAX: Final = 36_500
"""Largest card age that a condition of a rule may name."""
EXPORT_WINDOW_DAYS_MAX: Final = 366
EXPORTS_OPEN_MAX: Final = 5
"""Exports of one tenant and mode that wait or are being written."""
EXPORT_ADDRESS_SECONDS: Final = 3_600
"""Lifetime of a download address."""
EXPORT_KEEP_HOURS: Final = 24
"""Time after its creation at which an export and its content are deleted."""
EXPORT_PIECE_BYTES: Final = 1024 * 1024
"""Bytes of content that are compressed or sent at once."""
EXPORT_CHUNK_BYTES: Final = 256 * 1024
"""Compressed bytes in one row, at least: the last row may have fewer."""
EXPORT_BYTES_MAX: Final = 16 * 1024**3
"""Bytes of one export before its compression: about 40,000,000 transactions."""
EXPORT_SECONDS_MAX: Final = 3_600
"""Longest time to write one export. Its snapshot keeps old row versions from being removed for so long."""
EXPORT_LEASE_SECONDS: Final = 60
"""Time without progress after which another API server starts an export over."""
EXPORT_ATTEMPTS_MAX: Final = 3
EXPORT_POLL_SECONDS: Final = 0.5
"""Interval at which an API server looks for exports to write; it writes one at a time."""
BACKTEST_WINDOW_DAYS_MAX: Final = 92
BACKTESTS_OPEN_MAX: Final = 4
"""Back-tests of one tenant, in both modes, that wait or run."""
BACKTEST_RANGE_CARDS: Final = 200
"""Cards in one range, the unit of work of a back-test."""
BACKTEST_ROWS_READ: Final = 2_048
"""Journal rows that a back-test reads at once, about 4 MB."""
BACKTEST_ROWS_MAX: Final = 500_000
"""Journal rows of cards that share an account; a longer history is left out. A back-test keeps all
authorizations of one account in memory, about 1 kB each."""
BACKTEST_FLIPS_STORED_MAX: Final = 100_000
"""Flips of one back-test that are stored one by one; all of them are counted."""
BACKTEST_EXAMPLES_MAX: Final = 3
"""Mismatches that a result names."""
BACKTEST_CONTROLS_MAX: Final = 20
"""Controls that a back-test adds."""
BACKTEST_RULES_MAX: Final = 50
"""Rules that a back-test adds, and rules that it removes."""
BACKTEST_GROUPS_SHOWN_MAX: Final = 200
"""Rows of each table of a result, the largest first."""
BACKTEST_KEEP_DAYS: Final = 30
"""Time after its creation at which a back-test is deleted."""
BACKTEST_LEASE_SECONDS: Final = 15
"""Time without progress after which another process continues a back-test or a range."""
BACKTEST_ATTEMPTS_MAX: Final = 3
"""Attempts at one range."""
BACKTEST_SECONDS_MAX: Final = 6 * 3_600
"""Longest time of one back-test."""
BACKTEST_POLL_SECONDS: Final = 0.5
"""Interval at which an API server looks for back-tests to lead."""
BACKTEST_TASK_SECONDS: Final = 20.0
"""Longest time of one task, which then ends so that those of other tenants get their turn."""
BACKTESTS_AT_ONCE: Final = 4
"""Back-tests that one API server leads."""
BACKTEST_NICENESS: Final = 19
"""Nice value of tasks: decisions come first."""
CARD_IDS_MAX: Final = 100
"""Cards in one request that lists their ids."""
API_CONNECTIONS: Final = 10
"""Connections of one API server to PostgreSQL, without those for card states."""
POOL_RESERVED: Final = 1
"""Connections that tenants cannot take: they are for token look-ups and sweepers."""
POOL_WAITING_OF_TENANT_MAX: Final = 1_024
"""Requests of one tenant that wait for a connection; any further one is refused with 429."""
QUOTA_RECOUNT_SECONDS: Final = 60.0
"""Age of a tenant's count of objects at which it is read from the database again."""
QUOTA_TENANTS_COUNTED_MAX: Final = 20_000
"""Counts cached in one API server."""
STATEMENT_MS_MAX: Final = 4_000
"""Time limit of one statement of the API in PostgreSQL, and of all database work of one request."""
API_CLIENT_CHECK_MS: Final = 500
"""Interval at which PostgreSQL checks that the API still waits for a running statement."""
API_IDLE_IN_TRANSACTION_MS: Final = 2 * STATEMENT_MS_MAX
"""Time that a transaction may wait for the API before PostgreSQL ends the session: its process is frozen or
gone."""
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255
"""Length of an idempotency key."""
IDEMPOTENCY_RETENTION_HOURS: Final = 24
"""Lifetime of an idempotency key and its stored answer."""
IDEMPOTENCY_LEASE_SECONDS: Final = 10
"""Time after which a repetition takes over a request whose API server has stored no answer under its key."""
TOKEN_SECONDS: Final = 3_600
"""Lifetime of an access token."""
TOKEN_CACHE_SECONDS: Final = 1
"""A revoked token is refused everywhere within this time."""
TOKENS_CACHED_MAX: Final = 10_000
"""Tokens in the cache of one API server."""
TOKEN_FAILURES_PER_MINUTE: Final = 30
"""Default of a setting: failed authentications of one client id."""
TOKEN_FAILURES_PER_ADDRESS: Final = 10
"""Multiple of that limit for one address, which many clients may share."""
CLIENTS_MAX: Final = 100
"""Active API clients of a tenant in one mode."""
USERS_MAX: Final = 500
"""Users of a tenant, disabled ones included."""
PASSWORD_CHARS_MIN: Final = 12
PASSWORD_CHARS_MAX: Final = 256
"""Length of a user's password. The upper limit bounds the work of hashing."""
PASSWORD_HASHES_AT_ONCE: Final = 2
"""Passwords that an API server hashes at the same time; each takes 46 MiB and one core."""
SIGN_IN_FAILURES_PER_HOUR: Final = 60
"""Tries of a password an hour for one sign-in name, from all addresses, on each API server."""
OPENID_FLOW_SECONDS: Final = 600
"""Time to sign in at the OpenID Connect provider."""
OPENID_METADATA_SECONDS: Final = 3_600
"""How long the provider's metadata are kept."""
OPENID_REQUEST_SECONDS: Final = 10.0
"""Longest call of the provider."""
INVITATION_DAYS: Final = 7
"""Lifetime of an invitation, which works once."""
SIGN_IN_LINK_MINUTES: Final = 15
"""Lifetime of a sign-in link, which works once."""
ONE_TIME_CODE_SECONDS: Final = 300
"""Time to enter the one-time code after the password."""
ONE_TIME_CODE_FAILURES_MAX: Final = 5
"""Wrong one-time codes in a row, after which the user waits."""
ONE_TIME_CODE_PAUSE_MINUTES: Final = 15
"""How long the user then waits. With it, guessing a code takes years."""
RECOVERY_CODES: Final = 10
"""Recovery codes of a user; each works once."""
CLIENT_SECRET_OVERLAP_HOURS_MAX: Final = 168
"""Longest time that the previous secret of a client works after a rotation."""
EVENT_RETENTION_DAYS: Final = 30
"""Time that events and deliveries are shown."""
RETENTION_GRACE_DAYS: Final = 1
"""Grace period between hiding a row and deleting it."""
RETENTION_ROWS_MAX: Final = 1_000
"""Rows deleted in one statement: a month of events that expires at once must not delay decisions."""
RETENTION_SECONDS: Final = 60.0
"""Interval between retention sweeps."""
RETENTION_BUSY_SECONDS: Final = 0.25
"""The same while one step cannot delete all expired rows."""

# Wire
PROFILE_FILE_BYTES_MAX: Final = 65_536
"""Size of a profile file: a table of all elements has less than a quarter of it."""
FRAME_BYTES_MAX: Final = 4_096
"""Size of one message without its length prefix."""
MALFORMED_FRAMES_MAX: Final = 3
"""Malformed frames on one connection after which it is closed."""
FRAME_RECEIPT_SECONDS: Final = 10
"""From the first byte of a frame to its last; slower peers are cut."""
EDGE_CONNECTIONS_MAX: Final = 1_024
"""Open connections of one edge."""
EDGE_CONNECTIONS_PER_ADDRESS_MAX: Final = 768
"""Connections of one address; the rest is reserved for other addresses."""
EDGE_IDLE_SECONDS: Final = 300
"""Time without a message after which a connection without open requests is closed; networks send echo tests
about once a minute."""
EDGE_SILENT_SECONDS: Final = 60
"""The same for a connection that has never sent a request."""
EDGE_SEND_BUFFER_BYTES: Final = 128 * 1024
"""Kernel buffer for answers of one connection, which bounds the data that a slow reader leaves there."""
EDGE_IN_FLIGHT_MAX: Final = 4_096
"""Requests of one connection being decided; above it, the edge stops reading."""
EDGE_OPEN_MAX: Final = 2_048
"""Requests of all connections being decided (without those that wait for a programme's own decision) above
which new authorizations are refused at once. To read and refuse costs little; a network whose messages are
not read waits for answers that come too late."""
EDGE_WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Answers waiting for a peer to read them; above it, the edge stops reading from that peer, and cuts it if it
still reads no answers."""
LINKS_MAX: Final = 32
"""Links of one installation; each has counters and, if it listens, a port."""
LINK_CONNECTIONS_DEFAULT: Final = 64
"""Default for the open connections of a link that listens, at each edge. Each link has places of its own."""
LINK_CONNECTIONS_OUT_DEFAULT: Final = 1
"""Default for the connections that each edge keeps open on a link that connects."""
LINK_CONNECTIONS_OUT_MAX: Final = 32
"""The most such connections; processors allow a few."""
LINK_RECONNECT_SECONDS_MIN: Final = 0.1
LINK_RECONNECT_SECONDS_MAX: Final = 15.0
"""Pauses between attempts of a link to connect, doubling from the first to the second, each with jitter."""
LINK_STABLE_SECONDS: Final = 10.0
"""Lifetime of a connection after which the pause before the next attempt is the shortest one again."""
LINK_REPLY_SECONDS: Final = 5.0
"""Time that a peer has to answer an 0800; then its connection is closed."""
LINK_DRAIN_SECONDS: Final = 10.0
"""Time that connections of a link that is signed off have to finish; the deadline of messages is shorter."""
LINK_HANDSHAKES_MAX: Final = 64
"""Open TLS handshakes of one link."""
LINK_HANDSHAKES_PER_ADDRESS_MAX: Final = 16
"""Of these, handshakes with one address."""
LINK_MAC_KEYS_MAX: Final = 2
"""Keys in the file of a link's MAC: the current one and the one before it."""
LINK_RATE_SECONDS: Final = 60
"""Period of the rates in the state of a link."""
LINK_SIGN_OFF_POLL_SECONDS: Final = 1.0
"""Interval at which an edge reads which links operators have signed off."""
AUTHENTICATION_KEYS_SECONDS: Final = 5.0
"""Interval in which an edge reads changed authentication keys of programmes."""
PROBES_BURST: Final = 100
"""Unknown card numbers and wrong values of one acquirer at one address that are answered without delay."""
PROBES_PER_SECOND: Final = 5.0
"""Rate at which that allowance is refilled. Messages above it are slowed and refused (card testing)."""
PROBES_OF_SOURCE_FACTOR: Final = 4
"""Multiple of that allowance for one address with several acquirer ids, which it chooses itself."""
PROBE_KEYS_MAX: Final = 4_096
"""Addresses and acquirers that one edge distinguishes; the least recently seen are evicted."""
PROBE_DELAY_SECONDS: Final = 2.0
"""Delay of an answer above the limit: within the network's deadline."""
PROBES_DELAYED_MAX: Final = 1_024
"""Delayed answers of one edge. Each uses a slot of its connection, and good cards need slots too."""
PAN_CACHE_MAX: Final = 100_000
"""Card numbers cached in one edge, in about 40 MB; others cost a look-up, which is shared with their
neighbours."""
LOOKUP_BATCH_MAX: Final = 512
"""Keys in one look-up."""
LATE_REVERSAL_SECONDS_MIN: Final = 0.05
LATE_REVERSAL_SECONDS_MAX: Final = 2.0
"""Pauses between an edge's attempts to reverse a late approval, doubling from the first to the second."""
LATE_REVERSAL_STOP_SECONDS: Final = 5
"""Time that a stopping edge waits for late replies, and then again for open late reversals."""
LATE_REVERSAL_KEYS_MAX: Final = 100_000
"""Command keys of reversed authorizations cached in one edge, so that their repeats are not answered with an
approval."""
NETWORK_TIMEOUT_MS: Final = 5_000
"""Time that an acquirer waits for an answer before it counts as lost."""
WITHHELD_ANSWER_MS: Final = NETWORK_TIMEOUT_MS + 1_000
"""From the arrival of a test message that asks for a late answer to that answer: after its network has given
up."""
NETWORK_LATE_SECONDS: Final = 60
"""Time that the simulated network still records late answers."""
FORWARD_ATTEMPTS: Final = 30
"""Attempts of the simulated network to deliver a message that must arrive: reversals, advices and
presentments."""
FORWARD_SECONDS_MIN: Final = 0.25
FORWARD_SECONDS_MAX: Final = 30.0
"""Pauses between these attempts, doubling from the first to the second."""
FORWARD_RESUME_HOURS: Final = 24
"""Age up to which a restarted simulated network repeats reversals and presentments without an answer."""
OUTCOME_RECOVERY_HOURS: Final = 24
"""Age up to which the simulated network looks up the outcome of simulations that failed on the wire."""
OUTCOME_RECOVERY_AFTER_SECONDS: Final = 15
"""From the failure of a simulation to the first look-up: an edge that answered too late has reversed its
approval by then."""
OUTCOME_RECOVERY_POLL_SECONDS: Final = 3.0
"""Interval between look-ups."""
OUTCOME_RECOVERY_BATCH_MAX: Final = 256
"""Outcomes in one look-up."""
CLEARING_BATCH_MAX: Final = 128
"""Sales that are cleared automatically at the same time; the next ones wait for their answers."""
CLEARING_POLL_SECONDS: Final = 0.5
"""Interval between searches for sales that are due for clearing."""
CLEARING_LEASE_SECONDS: Final = 60
"""Lease of one network on due sales; afterwards they are due again."""
ECHO_SECONDS: Final = 30
"""Silence after which a session sends an echo test."""
RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 2.0
"""Pauses between attempts of a session to connect, doubling from the first to the second."""
SIMULATION_BATCH_MAX: Final = 512
"""Simulation rows in one statement."""
STAN_BLOCK: Final = 1_000
"""STANs reserved from the database at once; unused ones are skipped after a restart."""

# Renewal of cards
RENEWAL_DAYS: Final = 45
"""Days before the end of its last month at which a card is renewed."""
RENEWAL_SWEEP_SECONDS: Final = 60.0
"""Interval at which each API server searches for cards to renew."""
RENEWAL_SWEEP_MAX: Final = 500
"""Renewals in one sweep: cards are issued in large numbers, and thus expire in large numbers."""
RENEWALS_AT_ONCE: Final = 8
"""Renewals of one server at the same time, which leaves connections and owners to requests."""
RENEWAL_LEASE_SECONDS: Final = 3_600
"""Lease of one server on a renewal; a renewal that failed is tried again afterwards."""
RENEWAL_LEASES_KEPT_DAYS: Final = 90
"""Age at which the lease of a renewal that never succeeded is deleted; the card has expired by then."""

# Webhooks
WEBHOOK_ENDPOINTS_MAX: Final = 16
"""Endpoints of a tenant in one mode."""
WEBHOOK_SECRET_OVERLAP_HOURS: Final = 24
"""Time that the previous secret still signs after a rotation."""
WEBHOOK_TIMEOUT_SECONDS: Final = 10
"""Time limit of a whole attempt, from the look-up of the receiver's name to the last byte of its answer."""
WEBHOOK_ANSWER_BYTES_MAX: Final = 64 * 1024
"""Bytes of a receiver's answer that are read."""
SIGNATURE_TOLERANCE_SECONDS: Final = 300
"""Largest difference between the time in a signature and the verifier's clock."""

# Relay and wake-ups
RELAY_BATCH_MAX: Final = 128
"""Events that become deliveries in one transaction. It writes up to sixteen times as many rows, and the
commit of a decision may have to wait for their flush."""
RELAY_BUSY_SECONDS: Final = 0.05
"""Pause of the relay after a batch that was not full; after a full batch it pauses for as long as that batch
took."""
RELAY_IDLE_SECONDS: Final = 0.25
"""Pause of the relay after an empty batch, which costs one round trip."""
RELAY_TIMEOUT_MS: Final = 10_000
"""Time limit of one batch; the relay then starts it again."""
WAKE_UPS_KEPT_MAX: Final = 20_000
"""Wake-ups in the stream; older ones are trimmed, and the sweep finds their deliveries."""
WAKE_UPS_WAITING_MAX: Final = 20_000
"""Wake-ups queued for Redis above which further ones are dropped: Redis is away, and memory is bounded."""
WAKE_UPS_AT_ONCE_MAX: Final = 256
"""Wake-ups written or read in one round trip."""
WAKE_UP_WAIT_SECONDS: Final = 2.0
"""Time that a dispatcher's blocking read of the stream waits for wake-ups."""
WAKE_UP_STUCK_SECONDS: Final = 60.0
"""Wake-ups that their reader has left unacknowledged for this long are taken over."""
REDIS_TIMEOUT_SECONDS: Final = 1.0
"""Time limit of a round trip to Redis; the caller continues without it."""
DELIVERY_BACKLOG_COUNT_MAX: Final = 100_000
"""Due deliveries at which a measurement of the backlog stops counting."""
DELIVERY_BACKLOG_SECONDS: Final = 5.0
"""Interval between measurements."""
SCHEDULE_SLACK_SECONDS: Final = 3_600
"""An attempt scheduled this much later than its place in the schedule was scheduled by a wrong clock."""

# Dispatchers
ATTEMPTS_OF_ENDPOINT_MAX: Final = 16
"""Open attempts of one dispatcher to one endpoint."""
ATTEMPTS_OF_SUSPECT_MAX: Final = 4
"""The same after an attempt that was slow and got no answer."""
ATTEMPT_SLOW_SECONDS: Final = 1.0
"""Duration after which an attempt is slow and returns its slot: receivers that hang must not use up all
slots."""
ATTEMPTS_QUICK_MAX: Final = 256
"""Open attempts of one dispatcher that are not slow."""
ATTEMPTS_SLOW_MAX: Final = 1_024
"""Slow attempts above which endpoints that tend to hang wait."""
ATTEMPTS_OPEN_MAX: Final = 1_536
"""Open attempts of one dispatcher, slow ones included."""
CLAIM_BATCH_MAX: Final = 128
"""Deliveries claimed in one statement."""
CLAIM_ENDPOINTS_MAX: Final = 64
"""Endpoints whose due deliveries are searched in one statement."""
CLAIM_PAUSE_SECONDS_MIN: Final = 0.01
"""Shortest pause between two claims, and between two records: under load they share transactions."""
CLAIM_PAUSE_FACTOR: Final = 5
"""After a claim, the dispatcher pauses for this multiple of the claim's duration."""
CLAIM_PAUSE_SECONDS_MAX: Final = 0.5
"""Longest such pause: a long claim may only mean that the database stalled once."""
DELIVERY_LEASE_SECONDS: Final = 30.0
"""Lease on a claimed delivery; longer than one attempt plus its record."""
DELIVERY_LEASE_FRESH_SECONDS: Final = 10.0
"""Age of a lease above which its attempt is not sent any more: the process was frozen."""
RECORD_BATCH_MAX: Final = 256
"""Results of attempts recorded in one statement."""
DELIVERY_SWEEP_SECONDS: Final = 1.0
"""Interval between a dispatcher's sweeps for due deliveries without a wake-up."""
DELIVERY_SWEEP_ENDPOINTS_MAX: Final = 256
"""Endpoints in one step of a sweep."""
DISPATCHER_STOP_SECONDS: Final = 5.0
"""Time that a stopping dispatcher waits for receivers' answers."""
SECRETS_CACHED_MAX: Final = 10_000
"""Opened signing secrets cached in one dispatcher."""

# Outgoing calls
EGRESS_URL_CHARS_MAX: Final = 2_048
"""Length of a URL that customers give."""
EGRESS_CONNECTIONS_MAX: Final = 2_048
"""Open connections of one process to receivers."""
EGRESS_CONNECTIONS_PER_TARGET_MAX: Final = 64
"""Open connections of one process to one address and name: a receiver that hangs occupies no more."""
EGRESS_IDLE_SECONDS: Final = 4.0
"""Time that an idle connection is kept: shorter than common servers keep theirs, so that this side closes
first and no request is lost on a connection that the server closes."""
EGRESS_CONNECT_SECONDS: Final = 4.0
"""Time limit to connect to one address, TLS included, before the next one is tried."""
EGRESS_ADDRESSES_MAX: Final = 2
"""Addresses of one name that are tried in one attempt."""
EGRESS_CHECK_SECONDS: Final = 5.0
"""Time limit to resolve a name that is only checked."""
EGRESS_LOOKUP_CACHE_SECONDS: Final = 1.0
"""Lifetime of a cached answer of the resolver."""
EGRESS_LOOKUP_CACHE_MAX: Final = 10_000
"""Answers of the resolver cached in one process."""
EGRESS_LOOKUPS_MAX: Final = 64
"""Open look-ups of one process."""
EGRESS_LOOKUPS_OF_PARTY_MAX: Final = 8
"""Open look-ups for one tenant, or under one domain."""
EGRESS_LOOKUPS_WAITING_MAX: Final = 256
"""Open and waiting look-ups for one tenant, or under one domain; any further one fails at once."""

# Identity verification
KYC_PENDING_DAYS: Final = 30
"""Time that a check waits for its inputs."""
KYC_PASSED_DAYS: Final = 730
"""Validity of a passed check, unless its document expires earlier; supervisors require a renewal every one to
five years, by risk."""
KYC_AGE_YEARS_MIN: Final = 18
"""Minimum age of a cardholder."""
KYC_ATTEMPTS_MAX: Final = 3
"""Evaluations of one check; until then, a document that cannot be read is requested again."""
KYC_EVALUATION_SECONDS: Final = 2.0
"""Time that a submission waits for the identity provider; afterwards the check goes to review and is
evaluated again later."""
KYC_RETRY_SECONDS_MIN: Final = 5
KYC_RETRY_SECONDS_MAX: Final = 3_600
"""Pauses between such evaluations, doubling from the first to the second."""
KYC_TRIES_MAX: Final = 12
"""Consecutive evaluations without a result, over more than two hours; then the check waits for a person."""
KYC_LEASE_SECONDS: Final = 60
"""Lease of one server on a due evaluation."""
KYC_SWEEP_SECONDS: Final = 2.0
"""Interval at which each API server searches for due and expired checks. Expired ones have already stopped
counting."""
KYC_SWEEP_MAX: Final = 50
"""Checks of each kind in one sweep."""
CAPTURE_SESSION_SECONDS: Final = 3_600
"""Lifetime of a capture session."""
REVEAL_SESSION_SECONDS: Final = 300
"""Lifetime of a session that shows a card to its holder."""
REVEAL_ORIGINS_MAX: Final = 10
"""Origins that may frame the page of one session."""
REVEAL_SESSION_KEPT_SECONDS: Final = 86_400
"""Time that an expired session is kept, so that its link still says why it does not work."""
CUSTODY_LOG_DAYS: Final = 365
"""Time that rows of the custody log are kept; a trigger of the database refuses to delete younger ones."""
CUSTODY_SWEEP_SECONDS: Final = 600.0
"""Interval at which each API server deletes old sessions and old rows of the log."""
CUSTODY_SWEEP_MAX: Final = 1_000
"""Rows of each kind that one sweep deletes."""
BINDS_PER_WINDOW: Final = 10
"""Document types bound from one source address in a window."""
CAPTURE_REQUESTS_PER_WINDOW: Final = 120
"""All other requests of the capture page from one source address in a window: a person makes about ten."""
VISION_WINDOW_SECONDS: Final = 60
"""Length of that window."""
EVIDENCE_BYTES_MAX: Final = 4 * 1024 * 1024
"""One picture. The page shrinks a camera's picture to a tenth of this."""
EVIDENCE_RECEIPT_SECONDS: Final = 60
"""From a picture's first byte to its last: 4 MB from a phone with half a megabit a second."""
EVIDENCE_UPLOADS_MAX: Final = 16
"""Pictures that one server receives at the same time: 64 MB."""

# Logs
LOG_REPEATS_MAX: Final = 5
"""Equal lines that are written within ``LOG_REPEATS_SECONDS``; further ones are counted."""
LOG_REPEATS_SECONDS: Final = 10.0
LOG_KINDS_MAX: Final = 1_000
"""Kinds of lines that are distinguished."""
LOG_FRAMES_MAX: Final = 8
"""Innermost frames of a traceback that are logged."""

# Console, whose panels are read every few seconds
CONSOLE_SESSION_HOURS: Final = 12
"""Lifetime of a console session."""
CONSOLE_COUNTED_ROWS_MAX: Final = 50_000
"""Transactions that one request counts for a chart."""
CONSOLE_KEPT_SLOT_SECONDS: Final = 300
"""Slots of figures that are counted once and kept. Stored figures have this length: never change it."""
CONSOLE_SLOT_DELAY_SECONDS: Final = 120
"""Age of a slot before it is kept. A decision commits within seconds of its arrival, or not at all."""
CONSOLE_PROGRAMMES_MAX: Final = 50
"""Programmes on one panel."""
CONSOLE_DELIVERIES_MAX: Final = 1_000
"""Deliveries of each endpoint."""
CONSOLE_TRANSACTIONS_MAX: Final = 10
"""Transactions on one panel."""
CONSOLE_CSV_ROWS_MAX: Final = 2_000
"""Rows of the CSV file of a list: twenty requests of the API."""
CONSOLE_DELIVERY_ENDPOINTS_MAX: Final = 5
"""Webhook endpoints and events whose deliveries the page of a transaction shows: at most 60 requests of the
API."""
CONSOLE_DELIVERY_EVENTS_MAX: Final = 12
CONSOLE_CURSORS_MAX: Final = 40
"""Pages of a list that lead back one by one; further ones lead to the first page."""
CONSOLE_NOTICE_CHARS_MAX: Final = 300
"""Length of the notice that follows an action."""
CONSOLE_SEARCH_CHARS_MAX: Final = 100
"""Length of a text that is searched for."""
CONSOLE_SEARCH_PAGES_MAX: Final = 5
"""Pages of a list that a search reads."""
CONSOLE_ACTS_MAX: Final = 100
"""Entries on the page of the audit log."""

assert HOST_SILENCE_SECONDS <= ROLE_SILENCE_SECONDS
assert ROLE_PING_SECONDS + ROLE_SILENCE_SECONDS + WATCHER_LATE_SECONDS < ROLE_REPLACED_SECONDS
assert ROLE_CHECK_SECONDS * STOPPED_CHECKS < READY_SECONDS
assert BACKLOG_RESUME < BACKLOG_WAIT < BACKLOG_REFUSE
assert COMMIT_BATCH_MAX <= BACKLOG_RESUME
assert 0 < POOL_RESERVED < API_CONNECTIONS
assert CARDHOLDER_RESUME_SECONDS * 1000 > 2 * REST_DEADLINE_MS
assert COMMIT_TIMEOUT_MS < AUTHORIZATION_DEADLINE_MS < REST_DEADLINE_MS < IDEMPOTENCY_LEASE_SECONDS * 1000
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
assert AUTHORIZATION_DEADLINE_MS < LINK_DRAIN_SECONDS * 1000
assert LINK_CONNECTIONS_DEFAULT < EDGE_CONNECTIONS_MAX
assert LINK_REPLY_SECONDS < ECHO_SECONDS
assert PROBES_DELAYED_MAX < EDGE_IN_FLIGHT_MAX // 2
assert EDGE_OPEN_MAX < EDGE_IN_FLIGHT_MAX < ROUTER_BACKLOG_MAX
assert 2 * ROUTER_WAIT_SECONDS_MAX * 1000 <= AUTHORIZATION_DEADLINE_MS
assert ROUTER_BATCH_MAX <= COMMIT_BATCH_MAX
assert NETWORK_TIMEOUT_MS < CLEARING_LEASE_SECONDS * 1000
assert LATE_REVERSAL_SECONDS_MAX + LATE_REVERSAL_STOP_SECONDS < OUTCOME_RECOVERY_AFTER_SECONDS
assert OUTCOME_RECOVERY_AFTER_SECONDS < OUTCOME_RECOVERY_HOURS * 3600
assert WIRE_AMOUNT_MINOR_MAX < AMOUNT_MINOR_MAX < 2**63
assert EGRESS_CONNECTIONS_PER_TARGET_MAX * 8 <= EGRESS_CONNECTIONS_MAX
assert ATTEMPTS_OF_ENDPOINT_MAX <= EGRESS_CONNECTIONS_PER_TARGET_MAX
assert ATTEMPTS_QUICK_MAX + ATTEMPTS_SLOW_MAX <= ATTEMPTS_OPEN_MAX < EGRESS_CONNECTIONS_MAX
assert DELIVERY_LEASE_FRESH_SECONDS + WEBHOOK_TIMEOUT_SECONDS < DELIVERY_LEASE_SECONDS
assert DISPATCHER_STOP_SECONDS < WEBHOOK_TIMEOUT_SECONDS < WAKE_UP_STUCK_SECONDS
assert KYC_EVALUATION_SECONDS < KYC_RETRY_SECONDS_MIN < KYC_LEASE_SECONDS < KYC_RETRY_SECONDS_MAX
assert RENEWAL_DAYS < RENEWAL_LEASES_KEPT_DAYS
assert BODY_BYTES_MAX < EVIDENCE_BYTES_MAX
assert HTTP_HEAD_SECONDS + HTTP_SWEEP_SECONDS + HTTP_LINGER_SECONDS < 15.0
assert HTTP_CONNECTIONS_PER_ADDRESS_MAX < HTTP_CONNECTIONS_MAX
