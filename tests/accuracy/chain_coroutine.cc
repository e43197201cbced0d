// SPDX-License-Identifier: Apache-2.0
// C++20 coroutines that resume each other to a depth, and exceptions through them.
#include <coroutine>
#include <cstdio>
#include <exception>
#include <utility>

struct task {
	struct promise_type {
		unsigned value = 0;
		task get_return_object() { return task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		void return_value(unsigned v) { value = v; }
		void unhandled_exception() { std::terminate(); }
	};
	std::coroutine_handle<promise_type> handle;
	explicit task(std::coroutine_handle<promise_type> h) : handle(h) {}
	task(task &&other) : handle(std::exchange(other.handle, nullptr)) {}
	~task()
	{
		if (handle)
			handle.destroy();
	}
	__attribute__((noinline)) unsigned run()
	{
		handle.resume();
		return handle.promise().value;
	}
};

__attribute__((noinline)) static unsigned work(unsigned x)
{
	for (unsigned i = 0; i < 500; i++)
		x = (x * 31 + i) % 1000003;
	if (x % 64 == 0)
		throw x;
	return x;
}

static task climb(unsigned depth, unsigned x)
{
	if (depth)
		co_return climb(depth - 1, x + 1).run() + 1;
	unsigned y = 0;
	try {
		y = work(x);
	} catch (unsigned thrown) {
		y = thrown;
	}
	co_return y;
}

int main()
{
	unsigned x = 1;

	std::puts("ready");
	std::fflush(stdout);
	for (;;)
		x = climb(12, x).run();
}
