/* SPDX-License-Identifier: MIT */
/*
 * What workers and handlers do in a storm.
 *
 * An agent is one of them; only it touches its oracle, its random numbers and
 * its ends of the rings.  A ring has one agent that gives and one that takes,
 * and the only order between the two is the ring's counters: what the heap
 * needs beyond that it must see to itself.
 *
 * Around every call into the heap it is noted that the agent is inside, what
 * the call may do (`flags`), and whether interrupts were on; afterwards they
 * must be as before.  Calls nest: the pressure hook frees.
 *
 * A worker at times does a few operations with interrupts masked, as code that
 * holds a spin lock does.  A handler runs with them masked always.
 */
#include "storm_state.h"

/* Handlers want small blocks mostly, and now and then a span. */
#define HANDLER_SIZE ((size_t)2048)
#define HANDLER_LARGE ((size_t)768 << 10)

/* A handler frees more than it allocates above this. */
#define HANDLER_ENOUGH (STORM_HANDLER_BLOCKS / 2)

/* Blocks above this are filled in part: the time is the heap's. */
#define SAMPLED 256

/* Blocks that a worker keeps in a round that drains. */
#define DRAIN_LEFT 8

/* Hot blocks: an agent has so many at a time, and a worker's step has so many
 * operations.  The word that carries a name is behind what a free block is
 * linked by; HOT_NAME is a number that chance does not make. */
#define HOT_BLOCKS 16
#define HOT_SIZE 32
#define HOT_STEPS 64
#define HOT_WORD 2
#define HOT_NAME 0x73746f726d000000u

/* Blocks that are put by in a token at most. */
#define TOKEN_BLOCKS 6

/* So many times in one call a worker frees something under pressure. */
#define PRESSED_MAX 2

static uint64_t below(struct storm_agent *agent, uint64_t n)
{
	return test_random(&agent->random) % n;
}

/* Whether, once in n times. */
static bool once_in(struct storm_agent *agent, uint64_t n)
{
	return below(agent, n) == 0;
}

/* Begins a call: notes what it may do, and what interrupts are. */
static void call_begin(struct storm_agent *agent, unsigned flags)
{
	const struct storm_host *host = agent->storm->config.host;

	agent->flags = flags;
	agent->were_on = host->interrupts_on && host->interrupts_on();
	__atomic_store_n(&agent->inside, agent->inside + 1, __ATOMIC_RELAXED);
	if (host->before)
		host->before(agent->worker, agent->handler, flags);
}

/* Ends it: interrupts are as they were. */
static void call_end(struct storm_agent *agent)
{
	const struct storm_host *host = agent->storm->config.host;

	if (host->interrupts_on && host->interrupts_on() != agent->were_on) {
		agent->oracle.failures++;
		test_fail_values(__FILE__, __LINE__,
			"interrupts are as they were", !agent->were_on,
			agent->were_on);
	}
	if (host->after)
		host->after(agent->worker, agent->handler);
	__atomic_store_n(&agent->inside, agent->inside - 1, __ATOMIC_RELAXED);
}

static void oracle_before(void *arg, unsigned flags)
{
	struct storm_agent *agent = arg;

	agent->doing = NULL;
	if (!agent->inside)
		agent->pressed = 0;
	call_begin(agent, flags);
}

static void oracle_after(void *arg)
{
	call_end(arg);
}

void storm_oracle_set(struct storm_agent *agent)
{
	size_t share = agent->storm->config.memory / agent->storm->workers;
	struct oracle *oracle = &agent->oracle;

	oracle->may_fail = true;
	oracle->sampled = SAMPLED;
	oracle->size_max = share / 4;
	/* Together they want a half more than there is. */
	oracle->volume = share + share / 2;
	oracle->before = oracle_before;
	oracle->after = oracle_after;
	oracle->arg = agent;
}

bool storm_may_call(const struct storm *storm, unsigned worker, bool handler)
{
	const struct storm_agent *agent =
		&storm->agent[handler ? storm->workers + worker : worker];

	return !agent->inside || !(agent->flags & FALLOW_NOWAIT);
}

bool storm_pressure(void *arg, size_t size)
{
	struct storm *storm = arg;
	struct storm_agent *agent = &storm->agent[storm->config.host->self()];
	bool were_on = agent->were_on;
	unsigned flags = agent->flags;

	(void)size;
	if (agent->pressed++ >= PRESSED_MAX || agent->oracle.count == 0 ||
		once_in(agent, 2))
		return false;
	storm_count(&storm->counts.pressures);
	oracle_free(&agent->oracle, below(agent, agent->oracle.count));
	agent->were_on = were_on;
	agent->flags = flags;
	return true;
}

void storm_offline(struct storm_agent *agent)
{
	storm_count(&agent->storm->counts.offlines);
	agent->doing = "offline";
	call_begin(agent, 0);
	fallow_offline(agent->oracle.heap);
	call_end(agent);
}

void storm_collect(struct storm_agent *agent)
{
	storm_count(&agent->storm->counts.collects);
	agent->doing = "collect";
	call_begin(agent, 0);
	fallow_collect(agent->oracle.heap);
	call_end(agent);
}

/* Sweeps, a few pages or all of them, at times as another epoch. */
static void sweep(struct storm_agent *agent)
{
	size_t budget = once_in(agent, 2) ? SIZE_MAX : 1 + below(agent, 40);

	storm_count(&agent->storm->counts.sweeps);
	agent->doing = "sweep";
	call_begin(agent, 0);
	if (once_in(agent, 2))
		fallow_tick(agent->oracle.heap);
	fallow_sweep(agent->oracle.heap, budget);
	call_end(agent);
}

/* Reclaims, at any level: the others are asked. */
static void reclaim(struct storm_agent *agent)
{
	enum fallow_reclaim_level level = FALLOW_RECLAIM_HOLD +
		(enum fallow_reclaim_level)below(agent, 3);

	storm_count(&agent->storm->counts.reclaims);
	agent->doing = "reclaim";
	call_begin(agent, 0);
	fallow_reclaim(agent->oracle.heap, level);
	call_end(agent);
}

/* Returns the word of a hot block that says whose it is. */
static volatile uint64_t *hot_word(void *p)
{
	return (volatile uint64_t *)p + HOT_WORD;
}

/* Allocates a block, which must be nobody's, and signs it. */
static void *hot_alloc(struct storm_agent *agent, size_t size, uint64_t name)
{
	void *p = fallow_alloc_flags(agent->oracle.heap, size, FALLOW_NOWAIT);
	uint64_t word;

	agent->hot++;
	if (!p)
		return NULL;
	word = *hot_word(p) ^ (uintptr_t)p;
	if (word - HOT_NAME < STORM_AGENTS_MAX)
		storm_fail(agent->storm, "a block is handed out once");
	*hot_word(p) = name ^ (uintptr_t)p;
	return p;
}

/* Frees a block, which must still be what it was made. */
static void hot_free(struct storm_agent *agent, void *p, uint64_t name)
{
	agent->hot++;
	if (!p)
		return;
	if ((*hot_word(p) ^ (uintptr_t)p) != name)
		storm_fail(agent->storm, "a block is one agent's");
	*hot_word(p) = 0;
	fallow_free(agent->oracle.heap, p);
}

static uint64_t hot_name(const struct storm_agent *agent)
{
	return HOT_NAME + (uint64_t)(agent - agent->storm->agent);
}

/* Frees n hot blocks, of which some may be none. */
static void hot_free_all(struct storm_agent *agent, void **blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hot_free(agent, blocks[i], hot_name(agent));
}

/* Says that the agent's context is parked, or no more. */
static void park_call(struct storm_agent *agent, bool parked)
{
	agent->doing = parked ? "park" : "unpark";
	call_begin(agent, 0);
	if (parked)
		fallow_park(agent->oracle.heap);
	else
		fallow_unpark(agent->oracle.heap);
	call_end(agent);
}

/*
 * Parks the context for a moment.  Meanwhile its handler comes, and others look
 * into its pages; it frees what it has there, which leaves it parked, and is
 * used again with a word or without.
 */
static void park(struct storm_agent *agent)
{
	void *blocks[HOT_BLOCKS];

	storm_count(&agent->storm->counts.parks);
	for (unsigned i = 0; i < HOT_BLOCKS; i++)
		blocks[i] = hot_alloc(agent, HOT_SIZE, hot_name(agent));
	park_call(agent, true);
	if (!agent->handler && once_in(agent, 2))
		agent->storm->config.host->idle();
	agent->doing = "free while parked";
	hot_free_all(agent, blocks, HOT_BLOCKS);
	if (once_in(agent, 2))
		park_call(agent, false);
}

void storm_give_back(struct storm_agent *worker)
{
	sweep(worker);
	park(worker);
	reclaim(worker);
}

/* In an NMI, in the middle of anything that its CPU does. */
static void nmi_free(void *arg)
{
	struct storm_agent *agent = arg;
	void *block = agent->nmi_block;

	fallow_free_deferred(agent->oracle.heap, block);
	storm_count(&agent->storm->counts.nmis);
	/* Pairs with the acquire loads of the sender. */
	__atomic_store_n(&agent->nmi_block, NULL, __ATOMIC_RELEASE);
}

/* Frees a random block later: here, or in an NMI on a random CPU. */
static void free_later(struct storm_agent *agent)
{
	const struct storm_host *host = agent->storm->config.host;
	void *block;

	if (!agent->oracle.count)
		return;
	block = oracle_release(
		&agent->oracle, below(agent, agent->oracle.count));
	storm_count(&agent->storm->counts.deferred);
	agent->doing = "free_deferred";
	if (host->nmi && !agent->handler && once_in(agent, 2) &&
		!__atomic_load_n(&agent->nmi_block, __ATOMIC_ACQUIRE)) {
		agent->nmi_block = block;
		if (host->nmi((unsigned)below(agent, host->workers), nmi_free,
			    agent))
			return;
		agent->nmi_block = NULL;
	}
	call_begin(agent, FALLOW_NOWAIT);
	fallow_free_deferred(agent->oracle.heap, block);
	call_end(agent);
}

/* Puts blocks by in a token, as this agent. */
static void token_fill(struct storm_agent *agent)
{
	static const size_t sizes[] = { 40, 512, 3000, 20000 };
	struct fallow_token *token = &agent->token;
	size_t size = token->left ? token->size : sizes[below(agent, 4)];
	size_t n = 1 + below(agent, TOKEN_BLOCKS);
	unsigned flags = (token->left ? token->zero : once_in(agent, 2))
		? FALLOW_ZERO : 0;
	size_t left = token->left;
	bool filled;

	flags |= once_in(agent, 4) ? FALLOW_NOWAIT : 0;
	agent->doing = "prefill";
	call_begin(agent, flags);
	filled = fallow_prefill(agent->oracle.heap, token, size, n, flags);
	call_end(agent);
	if (token->left != (!filled || left > n ? left : n))
		storm_fail(agent->storm, "a token is filled, or as before");
}

/* Takes a block out of the token, which must be there. */
static void token_use(struct storm_agent *agent)
{
	struct fallow_token *token = &agent->token;
	unsigned flags = token->zero ? FALLOW_ZERO : 0;
	size_t size = token->size;
	bool there = token->left > 0;
	void *block;

	if (agent->oracle.max - agent->oracle.count < 4)
		return;
	block = fallow_alloc_from(token);
	if ((block != NULL) != there)
		storm_fail(agent->storm, "a token gives what it holds");
	if (!block)
		return;
	storm_count(&agent->storm->counts.tokens);
	oracle_adopt(&agent->oracle, block, size, flags);
}

/* Fills a token and uses some of it, or fills the handler's, who will. */
static void token_step(struct storm_agent *agent)
{
	struct storm *storm = agent->storm;
	const struct storm_host *host = storm->config.host;

	if (host->timer && once_in(agent, 2)) {
		uintptr_t state = host->handler_enter(agent->worker);
		struct storm_agent *handler =
			storm_handler_of(storm, agent->worker);

		token_fill(handler);
		host->handler_leave(agent->worker, state);
		return;
	}
	token_fill(agent);
	for (size_t n = below(agent, TOKEN_BLOCKS); n > 0; n--)
		token_use(agent);
}

void storm_settle(struct storm_agent *worker)
{
	struct storm *storm = worker->storm;
	struct storm_agent *handler = storm_handler_of(storm, worker->worker);
	struct fallow *heap = storm->config.heap;

	fallow_unfill(heap, &worker->token);
	fallow_unfill(heap, &handler->token);
	/* Pairs with the release in nmi_free(). */
	while (__atomic_load_n(&worker->nmi_block, __ATOMIC_ACQUIRE)) {
		storm_watch(storm);
		storm->config.host->pause();
	}
}

/* What may be called at any time beside everything else. */
static void look(struct storm_agent *agent)
{
	struct fallow_snapshot now = { .size = sizeof(now) };
	struct fallow_class_row rows[8];
	struct fallow *heap = agent->oracle.heap;

	agent->doing = "snapshot";
	call_begin(agent, 0);
	fallow_snapshot(heap, &now);
	fallow_class_table(heap, rows, 8);
	if (fallow_owns(heap, &now))
		storm_fail(agent->storm, "the stack is not the heap's");
	call_end(agent);
}

/* Passes a block on; returns whether there was room. */
static bool block_send(
	struct storm_agent *agent, size_t index, unsigned to)
{
	struct storm *storm = agent->storm;
	unsigned from = (unsigned)(agent - storm->agent);
	struct storm_ring *ring = &storm->rings[from][to];

	/* Pairs with the release in block_receive(): the slot was read. */
	if (ring->given - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) ==
		STORM_RING_BLOCKS)
		return false;
	ring->blocks[ring->given % STORM_RING_BLOCKS] =
		oracle_forget(&agent->oracle, index);
	/* Pairs with the acquire in block_receive(). */
	__atomic_store_n(&ring->given, ring->given + 1, __ATOMIC_RELEASE);
	storm_count(&storm->counts.passed);
	return true;
}

/* Takes one block from the ring, if there is one and room for it. */
static bool block_receive(struct storm_agent *agent, unsigned from)
{
	struct storm *storm = agent->storm;
	unsigned to = (unsigned)(agent - storm->agent);
	struct storm_ring *ring = &storm->rings[from][to];

	if (ring->taken == __atomic_load_n(&ring->given, __ATOMIC_ACQUIRE) ||
		!oracle_learn(&agent->oracle,
			ring->blocks[ring->taken % STORM_RING_BLOCKS]))
		return false;
	__atomic_store_n(&ring->taken, ring->taken + 1, __ATOMIC_RELEASE);
	return true;
}

/* Passes a random block to a random agent that can take it. */
static void send_any(struct storm_agent *agent)
{
	struct storm *storm = agent->storm;
	unsigned agents = storm->config.host->timer ? storm->agents
						    : storm->workers;

	if (agent->oracle.count)
		block_send(agent, below(agent, agent->oracle.count),
			(unsigned)below(agent, agents));
}

/* Takes up to n blocks of what came, and frees most of them. */
static void receive_any(struct storm_agent *agent, unsigned n)
{
	struct storm *storm = agent->storm;
	unsigned from = (unsigned)below(agent, storm->agents);

	for (unsigned i = 0; i < storm->agents && n > 0; i++) {
		while (n > 0 &&
			block_receive(agent, (from + i) % storm->agents)) {
			n--;
			if (!once_in(agent, 8))
				oracle_free(&agent->oracle,
					oracle_last(&agent->oracle));
		}
	}
}

void storm_free_all(struct storm_agent *agent)
{
	struct storm *storm = agent->storm;

	oracle_shrink(&agent->oracle, 0);
	for (unsigned from = 0; from < storm->agents; from++)
		while (block_receive(agent, from))
			oracle_free(&agent->oracle, 0);
}

/* Allocates `size` bytes in one of the ways there are. */
static bool alloc_any(struct storm_agent *agent, size_t size)
{
	switch (below(agent, 8)) {
	case 0:
		return oracle_alloc(&agent->oracle, size, FALLOW_NOWAIT);
	case 4:
		return oracle_alloc(&agent->oracle, size, FALLOW_RESERVE);
	case 5:
		return oracle_alloc(&agent->oracle, size,
			FALLOW_RESERVE | FALLOW_NOWAIT | FALLOW_ZERO);
	case 1:
		return oracle_zalloc(&agent->oracle, size);
	case 2:
		return oracle_aligned(&agent->oracle,
			(size_t)1 << below(agent, 17), size, 0);
	case 3:
		return oracle_alloc(&agent->oracle, size, FALLOW_NORECLAIM);
	default:
		return oracle_alloc(&agent->oracle, size, 0);
	}
}

/* Each doubling up to the worker's largest size is as likely as the next. */
static size_t size_any(struct storm_agent *agent)
{
	size_t size = agent->oracle.size_max >> below(agent, 15);

	return size / 2 + below(agent, size / 2 + 1);
}

/* A few operations with interrupts masked, which none of them may enable. */
static void masked_burst(struct storm_agent *agent)
{
	const struct storm_host *host = agent->storm->config.host;
	uintptr_t state;

	if (!host->interrupts_mask)
		return;
	state = host->interrupts_mask();
	for (unsigned i = 0; i < 4; i++)
		oracle_step(&agent->oracle);
	host->interrupts_restore(state);
}

/* What is done now and then in every phase: `rate` times in 512. */
static void step_rare(struct storm_agent *agent, unsigned rate)
{
	switch (below(agent, 512 / rate)) {
	case 0:
		storm_offline(agent);
		break;
	case 1:
	case 2:
		storm_collect(agent);
		break;
	case 3:
		look(agent);
		break;
	case 4:
	case 5:
		masked_burst(agent);
		break;
	case 6:
	case 7:
		park(agent);
		break;
	case 8:
	case 9:
		token_step(agent);
		break;
	case 10:
	case 11:
	case 12:
	case 13:
		sweep(agent);
		break;
	case 14:
		reclaim(agent);
		break;
	default:
		break;
	}
}

/* Now and then the machine's other users of memory want some, or leave some. */
static void squeeze(struct storm_agent *agent)
{
	const struct storm_host *host = agent->storm->config.host;

	if (once_in(agent, 12))
		host->squeeze(agent->worker, test_random(&agent->random));
}

static void step_churn(struct storm_agent *agent)
{
	oracle_step(&agent->oracle);
	if (once_in(agent, 16))
		free_later(agent);
	if (once_in(agent, 3))
		send_any(agent);
	if (once_in(agent, 4))
		receive_any(agent, 8);
	squeeze(agent);
	step_rare(agent, 2);
}

static void step_fill(struct storm_agent *agent)
{
	if (!alloc_any(agent, size_any(agent)) && agent->oracle.count) {
		/* At the brink: what one frees, another wants. */
		oracle_free(&agent->oracle,
			below(agent, agent->oracle.count));
		if (once_in(agent, 4))
			receive_any(agent, 4);
	}
	if (once_in(agent, 16))
		send_any(agent);
	squeeze(agent);
	step_rare(agent, 2);
}

static void step_drain(struct storm_agent *agent)
{
	if (agent->oracle.count > DRAIN_LEFT) {
		if (once_in(agent, 2))
			send_any(agent);
		if (once_in(agent, 8))
			free_later(agent);
		oracle_shrink(&agent->oracle, agent->oracle.count - 1);
	}
	receive_any(agent, 4);
	step_rare(agent, 4);
}

/* Even workers allocate and pass on to the odd one behind them, or to its
 * handler; a lone one plays with its handler. */
static void step_pingpong(struct storm_agent *agent)
{
	struct storm *storm = agent->storm;
	unsigned to = agent->worker + 1;

	if (agent->worker % 2) {
		receive_any(agent, 16);
		return;
	}
	if (to >= storm->workers || once_in(agent, 4))
		to = storm->config.host->timer ?
			storm->workers + (to % storm->workers) : agent->worker;
	if (!oracle_alloc(&agent->oracle, 16 + below(agent, 8) * 24,
		    once_in(agent, 8) ? FALLOW_NOWAIT : 0) ||
		!block_send(agent, oracle_last(&agent->oracle), to)) {
		if (agent->oracle.count)
			oracle_free(&agent->oracle,
				below(agent, agent->oracle.count));
		storm->config.host->pause();
	}
	if (once_in(agent, 8))
		receive_any(agent, 8);
	if (once_in(agent, 256))
		storm_collect(agent);
}

/*
 * So many times a block more or a block less, without an oracle, which would
 * take most of the time: that is the heap's, and its shortest paths are what a
 * handler comes in between.  Workers and handlers use the same few sizes.
 */
static void hot_loop(struct storm_agent *agent, unsigned times)
{
	size_t size = HOT_SIZE + 16 * below(agent, 2);
	uint64_t name = hot_name(agent);
	void *blocks[HOT_BLOCKS] = { NULL };

	agent->doing = "hot";
	call_begin(agent, FALLOW_NOWAIT);
	for (unsigned i = 0; i < times; i++) {
		unsigned at = (unsigned)below(agent, HOT_BLOCKS);

		if (blocks[at]) {
			hot_free(agent, blocks[at], name);
			blocks[at] = NULL;
		} else {
			blocks[at] = hot_alloc(agent, size, name);
		}
	}
	hot_free_all(agent, blocks, HOT_BLOCKS);
	call_end(agent);
}

static void step_hot(struct storm_agent *agent)
{
	hot_loop(agent, HOT_STEPS);
	if (once_in(agent, 4))
		oracle_step(&agent->oracle);
	if (once_in(agent, 4))
		receive_any(agent, 4);
	step_rare(agent, 2);
}

/* Who is parked most of the time, and who takes what that left: even and odd
 * workers, or a lone one by turns. */
static void step_quiet(struct storm_agent *agent)
{
	const struct storm_host *host = agent->storm->config.host;
	bool odd = host->workers > 1 ? agent->worker % 2 : once_in(agent, 2);

	if (once_in(agent, 64))
		host->relax(agent->worker);
	if (once_in(agent, 4))
		receive_any(agent, 4);
	if (once_in(agent, 8))
		oracle_step(&agent->oracle);
	else if (!odd && once_in(agent, 2))
		park(agent);
	else if (odd && once_in(agent, 2))
		storm_collect(agent);
	else
		host->pause();
	step_rare(agent, 8);
}

void storm_step(struct storm_agent *agent)
{
	switch (agent->storm->phase) {
	case STORM_CHURN:
		step_churn(agent);
		break;
	case STORM_FILL:
		step_fill(agent);
		break;
	case STORM_DRAIN:
		step_drain(agent);
		break;
	case STORM_PINGPONG:
		step_pingpong(agent);
		break;
	case STORM_HOT:
		step_hot(agent);
		break;
	case STORM_QUIET:
		step_quiet(agent);
		break;
	default:
		/* Nothing more before all is freed. */
		receive_any(agent, 4);
		break;
	}
}

/* One operation of a handler. */
static void handler_operation(struct storm_agent *agent)
{
	struct oracle *oracle = &agent->oracle;
	unsigned flags = (once_in(agent, 2) ? FALLOW_NOWAIT : 0) |
		(once_in(agent, 2) ? FALLOW_RESERVE : 0);
	size_t size = once_in(agent, 64) ? below(agent, HANDLER_LARGE)
					 : below(agent, HANDLER_SIZE);

	if (once_in(agent, 2) && agent->token.left)
		token_use(agent);
	else if (oracle->count && once_in(agent, 12))
		free_later(agent);
	else if (oracle->count > HANDLER_ENOUGH ||
		(oracle->count && once_in(agent, 3)))
		oracle_free(oracle, below(agent, oracle->count));
	else if (oracle->count && once_in(agent, 4))
		oracle_realloc(oracle, below(agent, oracle->count), size,
			flags);
	else if (once_in(agent, 4))
		oracle_aligned(oracle, (size_t)1 << below(agent, 14), size,
			flags | (once_in(agent, 2) ? FALLOW_ZERO : 0));
	else
		oracle_alloc(oracle, size, flags);
}

void storm_step_handler(struct storm_agent *agent)
{
	unsigned n = 1 + (unsigned)below(agent, 3);

	if (agent->storm->phase == STORM_HOT) {
		hot_loop(agent, HOT_BLOCKS);
		if (!once_in(agent, 8))
			return;
	}
	for (unsigned i = 0; i < n; i++)
		handler_operation(agent);
	if (once_in(agent, 3))
		receive_any(agent, 4);
	if (once_in(agent, 3))
		send_any(agent);
	switch (below(agent, 256)) {
	case 0:
		storm_offline(agent);
		break;
	case 1:
		look(agent);
		break;
	case 2:
		park(agent);
		break;
	default:
		break;
	}
}
