/* Threads that put are cancelled (pthread_cancel) wherever that meets them: the library stays
 * usable. They end at points of cancellation of their own. */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 1000 };

static char bytes[3000];

static void *putting(void *unused)
{
    for (;;) {
        EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put(bytes, sizeof bytes, &self, BOX(77)));
        pthread_testcancel();
    }
    return unused;
}

int main(void)
{
    start();
    OK(RVMA_Local_addr(&self));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *result;
        /* A call that never returns ends the program. */
        alarm(60);
        CHECK(!pthread_create(&thread, NULL, putting, NULL));
        usleep((useconds_t)(round * 7919 % 300));
        CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
        CHECK(result == PTHREAD_CANCELED);
        EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put(bytes, sizeof bytes, &self, BOX(78)));
    }
    OK(RVMA_Finalize());
    return 0;
}
